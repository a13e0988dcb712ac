import type { Page } from "playwright-core";
import { expect, it, vi } from "vitest";
import { proxyOf } from "./proxy.js";
import { inBrowser, openDashboard, useBrowser, type Dashboard } from "./scene.js";

useBrowser();

/** Signs in with a token in the field for it. */
async function signIn(page: Page, token: string): Promise<void> {
  await page.getByLabel("API token").fill(token);
  await page.keyboard.press("Enter");
}

async function tokenOf({ hf }: Dashboard, name: string, role: "user" | "operator" | "admin"): Promise<string> {
  return (await hf.tokens.create({ name, role, ...(role === "user" && { user: name }) })).token;
}

/** Hides the page and shows it again: it opens its event stream anew, and so learns at once that its session has ended. */
async function hideAndShow(page: Page): Promise<void> {
  for (const hidden of [true, false]) {
    await page.evaluate((value) => {
      Object.defineProperty(document, "hidden", { value, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  }
}

inBrowser("a tab of the role user", () => {
  it("takes no jobs from the stream of another tab", async () => {
    const { page, open, hf } = await openDashboard({ role: "user", user: "ada" });
    await hf.enqueueNamed("mail", {}, { user: "ada", delay: "1h" });
    const { id } = await hf.enqueueNamed("secret", {}, { user: "eve", delay: "1h" });
    await open("/jobs");
    await page.locator("tr.job").waitFor();
    const job = { ...(await hf.get(id)), tags: [] };
    await page.evaluate(
      (sent) => {
        const { src } = document.querySelector("script") as HTMLScriptElement;
        new BroadcastChannel(`holdfast ${src}`).postMessage({ job: sent });
      },
      JSON.parse(JSON.stringify(job)) as object,
    );
    // A message to itself comes after it, and the page shows jobs once per frame.
    await page.evaluate(
      () =>
        new Promise<void>((resolve) => {
          const [one, other] = [new BroadcastChannel("after"), new BroadcastChannel("after")];
          other.addEventListener("message", () => requestAnimationFrame(() => requestAnimationFrame(() => resolve())));
          one.postMessage(null);
        }),
    );
    expect(await page.getByRole("button", { name: /new$/ }).count()).toBe(0);
    expect(await page.locator("tr.job").count()).toBe(1);
  });
});

inBrowser("a session that ends", () => {
  it("keeps the page, with what was typed", async () => {
    const dashboard = await openDashboard({ role: "admin", expected: /401/ });
    const { page, open, hf } = dashboard;
    const [first] = await hf.tokens.list();
    await open("/schedules");
    await page.getByRole("button", { name: "New schedule" }).click();
    await page.getByLabel("Name", { exact: true }).fill("nightly");
    await hf.tokens.revoke(first?.id ?? "");
    const expired = page.getByText("Your session has expired. This page is kept.");
    await expired.waitFor();
    expect(await page.getByLabel("Name", { exact: true }).inputValue()).toBe("nightly");
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { name: "Schedules", level: 1 }).waitFor();
    await page.getByText("No schedules yet").waitFor();
    // The same caller goes on where they were.
    const { token } = await hf.tokens.create({ name: "admin", role: "admin" });
    await page.evaluate(() => Object.assign(globalThis, { isSamePage: true }));
    await page.getByRole("button", { name: "Sign in" }).click();
    await signIn(page, token);
    await expired.waitFor({ state: "detached" });
    expect(await page.evaluate("globalThis.isSamePage")).toBe(true);
  });

  it("keeps the secret of the first token on the page", async () => {
    const { page, open, url } = await openDashboard({ expected: /401/ });
    await open("/tokens");
    await page.getByRole("button", { name: "New token" }).click();
    await page.getByLabel("Name", { exact: true }).fill("ada");
    await page.getByRole("button", { name: "Create token" }).click();
    await vi.waitUntil(async () => (await fetch(`${url}/api/admin/queues`)).status === 401, { timeout: 10_000 });
    await hideAndShow(page);
    await page.getByText("Your session has expired.").waitFor();
    expect(await page.getByLabel("Token", { exact: true }).textContent()).toMatch(/^hf_/);
  });

  it("leaves nothing on the page for another caller", async () => {
    const dashboard = await openDashboard({ role: "admin", expected: /401|403/ });
    const { page, open, hf, context, url } = dashboard;
    const [first] = await hf.tokens.list();
    const token = await tokenOf(dashboard, "bob", "user");
    await hf.enqueueNamed("secret.type", {}, { queue: "secret-queue" });
    await open("/jobs");
    await page.getByText("secret.type").first().waitFor();
    const other = await context.newPage();
    await other.goto(`${url}/jobs`);
    await other.getByText("secret.type").first().waitFor();
    await page.bringToFront();
    await page.evaluate(() => sessionStorage.setItem("holdfast.enqueue ", '{"type":"secret.draft"}'));
    await page.evaluate(() => Object.assign(globalThis, { isSamePage: true }));
    await hf.tokens.revoke(first?.id ?? "");
    await hideAndShow(page);
    await page.getByRole("button", { name: "Sign in" }).click();
    await signIn(page, token);
    await page.getByText("token:bob · user").waitFor();
    expect(await page.evaluate("globalThis.isSamePage")).toBeUndefined();
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
    await page.getByText("No jobs yet").waitFor();
    // Nor on other tabs.
    await other.getByText("token:bob · user").waitFor();
    await other.getByText("No jobs yet").waitFor();
  });

  it("ends in every tab", async () => {
    const { page, open, context, url } = await openDashboard({ role: "admin", expected: /401/ });
    await open("/queues");
    const other = await context.newPage();
    await other.goto(`${url}/tokens`);
    await other.getByText("1 token").waitFor();
    await page.bringToFront();
    await page.getByRole("button", { name: /admin · admin/ }).click();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("API token").waitFor();
    await other.getByLabel("API token").waitFor();
    expect(await other.getByText("1 token").count()).toBe(0);
  });
});

inBrowser("a server that refuses", () => {
  it("to be called by its name says so", async () => {
    const { page, url } = await openDashboard({ expected: /403|^another host: http:\/\/attack\.localhost/ });
    await page.goto(url.replace("127.0.0.1", "attack.localhost"));
    await page.getByText("is not allowed without API tokens; use localhost, or create a token.").waitFor();
  });
});

inBrowser("the event stream", () => {
  it.each([429, 502, 503])("is opened again after a response with status %i", async (status) => {
    const { page, hf, url } = await openDashboard({
      expected: /Failed to load resource|ERR_|^another host: http:\/\/127\.0\.0\.1/,
    });
    const { id } = await hf.enqueueNamed("report", {}, { delay: "1h" });
    const proxy = await proxyOf(url);
    await page.goto(`${proxy.url}/jobs`);
    const row = page.locator("tr.job");
    await row.getByText("pending").first().waitFor();
    await vi.waitUntil(() => proxy.streams() === 1);
    proxy.refuse(status);
    // While there is no stream, the page is not informed.
    await hf.cancel(String(id));
    await page.waitForResponse((response) => response.status() === status);
    proxy.refuse(null);
    await vi.waitUntil(() => proxy.streams() === 2, { timeout: 15_000 });
    await row.getByText("cancelled").first().waitFor();
  });

  it("ignores messages of other pages of its host", async () => {
    const { page, open, context, url, hf } = await openDashboard();
    await hf.enqueueNamed("report", {});
    await open("/jobs");
    await page.locator("tr.job").waitFor();
    const other = await context.newPage();
    await other.goto(`${url}/queues`);
    await page.bringToFront();
    const channel = await page.evaluate(async () => {
      const { held = [] } = await navigator.locks.query();
      return held.map(({ name }) => name).find((name) => name?.startsWith("holdfast ")) ?? "";
    });
    expect(channel).toMatch(/^holdfast http/);
    await other.evaluate((name) => {
      const sender = new BroadcastChannel(name);
      for (const message of [null, 5, "x", {}, [], { stats: null }, { stats: {} }, { job: 5 }, { job: { id: "x" } }])
        sender.postMessage(message);
      sender.postMessage({ missed: true });
    }, channel);
    await page.waitForResponse((response) => response.url().includes("/api/admin/jobs?"));
    await page.locator("tr.job").waitFor();
  });
});
