import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { findEntries, jobIdIn, marked, type Entry } from "../src/overlays/palette/entries.js";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

const mail = job({ type: "mail.send", queue: "mail", run: () => "sent" });

inBrowser("the palette", () => {
  it("opens views, schedules and a pasted job id by keyboard", async () => {
    const { page, hf, open, url } = await openDashboard({ jobs: [mail] });
    await hf.schedule("nightly report", { job: mail, every: "1h" });
    const { id } = await hf.enqueue(mail, undefined);
    await open("/queues");
    await page.getByRole("heading", { name: "Queues", exact: true }).waitFor();
    await page.keyboard.press("Control+k");
    const box = page.getByRole("combobox");
    await box.fill("worke");
    await page.getByRole("option", { name: "Workers" }).waitFor();
    await page.keyboard.press("Enter");
    await page.waitForURL(`${url}/workers`);
    await page.keyboard.press("Control+k");
    await box.fill("nightly");
    await page.getByRole("option", { name: /^Schedule nightly report/ }).waitFor();
    await page.keyboard.press("ArrowUp");
    expect(await page.locator('[role="option"][aria-selected="true"]').textContent()).toContain(
      "Schedule nightly report",
    );
    const selected = await page.locator('[role="option"][aria-selected="true"]').getAttribute("id");
    expect(await box.getAttribute("aria-activedescendant")).toBe(selected);
    await page.keyboard.press("Enter");
    await page.waitForURL(`${url}/schedules/nightly%20report`);
    await page.keyboard.press("Control+k");
    await box.fill(` ${id} `);
    await page.keyboard.press("Enter");
    await page.waitForURL(`${url}/jobs/${id}`);
  });

  it("runs actions that the role allows", async () => {
    const { page, hf, open } = await openDashboard({ jobs: [mail], role: "operator" });
    await hf.schedule("nightly", { job: mail, every: "1h" });
    await open("/queues");
    await page.getByRole("heading", { name: "Queues", exact: true }).waitFor();
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox").fill("> run");
    await page.getByRole("option", { name: "Run nightly now" }).click();
    await page.locator(".toast").getByText("Enqueued a job of nightly.").waitFor();
    expect((await hf.list({ schedule: "nightly" })).jobs).toHaveLength(1);
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox").fill("token");
    await page.getByText("Nothing found.").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("combobox").waitFor({ state: "detached" });
  });

  it("has only jobs for a user", async () => {
    const { page, open } = await openDashboard({ jobs: [mail], role: "user", user: "u-1" });
    await open("/jobs");
    await page.keyboard.press("Control+k");
    await page.getByRole("option").first().waitFor();
    const found = (await page.getByRole("option").allTextContents()).join("|");
    expect(found).toContain("Jobs");
    expect(found).not.toMatch(/Schedule|Queue|Audit|token/i);
  });
});

inBrowser("the account", () => {
  it("changes theme and rows, and signs out", async () => {
    const { page, open } = await openDashboard({ role: "admin", expected: /401/ });
    await open("/queues");
    await page.getByRole("button", { name: /admin · admin/ }).click();
    const dialog = page.getByRole("dialog", { name: "Account" });
    await dialog.getByRole("button", { name: "Dark" }).click();
    await dialog.getByRole("button", { name: "Comfortable" }).click();
    const root = page.locator("html");
    expect(await root.getAttribute("data-theme")).toBe("dark");
    expect(await root.getAttribute("data-density")).toBe("comfortable");
    await page.reload();
    await page.getByRole("heading", { name: "Queues", exact: true }).waitFor();
    expect(await root.getAttribute("data-density")).toBe("comfortable");
    await page.getByRole("button", { name: /admin · admin/ }).click();
    await dialog.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("API token").waitFor();
    await page.reload();
    await page.getByLabel("API token").waitFor();
  });

  it("opens the other pages on a narrow screen", async () => {
    const { page, open, url } = await openDashboard({ width: 375 });
    await open("/schedules");
    await page.getByRole("button", { name: "More" }).click();
    await page.getByRole("link", { name: "Audit log" }).click();
    await page.waitForURL(`${url}/audit`);
    await page.getByRole("dialog").waitFor({ state: "detached" });
  });

  it("says what to do where tokens do not help", async () => {
    const { page, open } = await openDashboard({ admin: { auth: () => null }, expected: /401|404/ });
    await open("/");
    await page.getByLabel("API token").fill("hf_any");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("Sign-in with an API token is disabled on this server.").waitFor();
    await page.getByText("Sign in to the application that serves this page, then load it again.").waitFor();
  });
});

inBrowser("the list of shortcuts", () => {
  it("shows those of the view", async () => {
    const { page, open } = await openDashboard();
    await open("/schedules");
    await page.getByRole("button", { name: "New schedule" }).waitFor();
    await page.keyboard.press("?");
    const dialog = page.getByRole("dialog", { name: "Keyboard" });
    await dialog.getByText("Pause or resume live updates").waitFor();
    await dialog.getByText("Filter").waitFor();
  });
});

describe("entries of the palette", () => {
  const entries: Entry[] = [
    { group: "Go to", icon: "jobs", text: "Jobs" },
    { group: "Actions", icon: "theme", text: "Switch between light and dark" },
    { group: "Go to", icon: "jobs", text: "Jobs of type gmail.sync" },
    { group: "Actions", icon: "play", text: "Run gmail-watch now" },
    { group: "Go to", icon: "queues", text: "Queue egmont" },
  ];
  const find = (text: string) => findEntries(entries, text).map(({ text: found }) => found);

  it("match all words, the best first, in groups", () => {
    expect(find("jobs")).toEqual(["Jobs", "Jobs of type gmail.sync"]);
    expect(find("GM")).toEqual(["Jobs of type gmail.sync", "Queue egmont", "Run gmail-watch now"]);
    expect(find("type sync")).toEqual(["Jobs of type gmail.sync"]);
    expect(find("nothing")).toEqual([]);
    expect(find("")).toHaveLength(5);
  });

  it("are only actions after >", () => {
    expect(find(">")).toEqual(["Switch between light and dark", "Run gmail-watch now"]);
    expect(find("> gm")).toEqual(["Run gmail-watch now"]);
  });

  it("mark what was typed", () => {
    expect(marked("Run gmail.sync", "GM").filter(({ isTyped }) => isTyped)).toEqual([{ part: "gm", isTyped: true }]);
    expect(marked("a(b", "(").map(({ part }) => part)).toEqual(["a", "(", "b"]);
    expect(marked("abc", "")).toEqual([{ part: "abc", isTyped: false }]);
  });

  it("know the id of a job", () => {
    expect(jobIdIn(" 0199E1F0-1111-7000-8000-123456789ABC\n")).toBe("0199e1f0-1111-7000-8000-123456789abc");
    expect(jobIdIn("0199e1f0")).toBeNull();
  });
});
