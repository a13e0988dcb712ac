import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { auditQuery, detailWords, targetOf } from "../src/views/audit/entries.js";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

const mail = job({ type: "mail.send", queue: "mail", run: () => "sent" });

inBrowser("the audit log", () => {
  it("shows changes, filters and opens details", async () => {
    const { page, hf, open, url, context } = await openDashboard({ jobs: [mail] });
    await hf.schedule("nightly", { job: mail, every: "1h" });
    const post = async (path: string, data: object) => {
      const response = await context.request.fetch(`${url}/api/admin${path}`, {
        method: path.startsWith("/schedules") ? "PUT" : "POST",
        data,
        headers: { origin: url },
      });
      expect(response.ok()).toBe(true);
    };
    await post("/schedules/nightly", { priority: 7 });
    await post("/queues/mail/pause", {});
    await open("/audit");
    const row = page.getByRole("row", { name: /schedules\.update/ });
    await row.getByText("priority 7").waitFor();
    expect(await row.getByRole("link", { name: "nightly" }).getAttribute("href")).toBe("/schedules/nightly");
    await row.getByRole("button").click();
    await page.getByText('"priority": 7').waitFor();
    await page.getByLabel("Action").fill("queues.pause");
    await page.keyboard.press("Enter");
    await page.getByLabel("Action").blur();
    await row.waitFor({ state: "detached" });
    await page.getByRole("row", { name: /queues\.pause/ }).waitFor();
    expect(page.url()).toBe(`${url}/audit?action=queues.pause`);
    await page.getByLabel("Who").fill("nobody");
    await page.getByLabel("Who").blur();
    await page.getByText("No entry matches").waitFor();
    await page.getByRole("button", { name: "Show all" }).click();
    await row.waitFor();
  });

  it("has the same times in the URL in each time zone", async () => {
    const { page, open } = await openDashboard();
    await open("/audit");
    // The browser is in Berlin.
    await page.getByLabel("After").fill("2026-11-18T12:30");
    await page.waitForURL(/\/audit\?after=2026-11-18T11%3A30%3A00\.000Z$/);
    await page.reload();
    expect(await page.getByLabel("After").inputValue()).toMatch(/^2026-11-18T12:30(?::00)?$/);
    await page.getByLabel("After").fill("");
    await page.waitForURL(/\/audit$/);
  });

  it("has pages by cursor", async () => {
    const { page, hf, open, url, context } = await openDashboard({ jobs: [mail] });
    await hf.enqueue(mail, undefined);
    for (let count = 0; count < 52; count++) {
      const action = count % 2 === 0 ? "pause" : "resume";
      await context.request.post(`${url}/api/admin/queues/mail/${action}`, { data: {}, headers: { origin: url } });
    }
    await open("/audit");
    const rows = page.locator("tbody tr");
    await rows.nth(49).waitFor();
    await page.getByRole("button", { name: "Older" }).click();
    await expect.poll(() => rows.count()).toBe(2);
    await page.goBack();
    await rows.nth(49).waitFor();
  });
});

inBrowser("API tokens", () => {
  it("shows a new token once, and revokes it", async () => {
    const { page, open, url } = await openDashboard({ role: "admin" });
    const withToken = (token: string) =>
      fetch(`${url}/api/admin/session`, { headers: { authorization: `Bearer ${token}` } });
    await open("/tokens");
    await page.getByRole("button", { name: "New token" }).click();
    await page.getByLabel("Name").fill("grafana");
    await page.getByRole("button", { name: "Create token" }).click();
    const dialog = page.getByRole("dialog", { name: "Token grafana" });
    await dialog.getByText("It is shown only once").waitFor();
    const secret = (await dialog.getByLabel("Token", { exact: true }).textContent()) ?? "";
    expect(await (await withToken(secret)).json()).toMatchObject({ name: "token:grafana", role: "viewer" });
    await dialog.getByRole("button", { name: "I have copied it" }).click();
    const row = page.getByRole("row", { name: /grafana/ });
    await row.getByText("viewer").waitFor();
    expect(await page.content()).not.toContain(secret);
    await row.getByRole("button", { name: "Revoke grafana" }).click();
    await page.getByRole("button", { name: "Revoke token" }).click();
    await row.waitFor({ state: "detached" });
    expect((await withToken(secret)).status).toBe(401);
  });

  it("are not for operators", async () => {
    const { page, open } = await openDashboard({ role: "operator" });
    await open("/tokens");
    await page.getByText("This page does not exist, or your role may not see it.").waitFor();
  });
});

describe("entries of the audit log", () => {
  it("say their detail in a line", () => {
    expect(detailWords({ priority: 3, tags: ["a"], operation: "id", missing: null })).toBe('priority 3, tags ["a"]');
    expect(detailWords(null)).toBe("");
    expect(detailWords({ text: "x".repeat(500) })).toHaveLength(121);
  });

  it("link to what they are about", () => {
    const id = "0199e1f0-1111-7000-8000-123456789abc";
    expect(targetOf({ action: "jobs.retry", target: id })).toEqual({ kind: "job", name: id });
    expect(targetOf({ action: "jobs.retryMany", target: '{"state":["dead"]}' })).toBeNull();
    expect(targetOf({ action: "schedules.update", target: "a/b" })).toEqual({ kind: "schedule", name: "a/b" });
    expect(targetOf({ action: "schedules.remove", target: "a" })).toBeNull();
    expect(targetOf({ action: "queues.pause", target: "mail" })).toEqual({ kind: "queue", name: "mail" });
    expect(targetOf({ action: "tokens.create", target: "ci" })).toBeNull();
  });

  it("are filtered by what the URL has", () => {
    const query = new URLSearchParams("actor=ada&action=&after=2026-11-18T12:00Z&before=nonsense&open=x&cursor=c");
    expect(auditQuery(query)).toEqual({ actor: "ada", after: "2026-11-18T12:00:00.000Z", cursor: "c" });
  });
});
