import { job, type Holdfast } from "holdfast";
import { expect, it } from "vitest";
import { z } from "zod";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

const mail = job({ type: "mail", input: z.any(), queue: "mail", run: () => {} });
const sync = job({
  type: "gmail.sync",
  input: z.any(),
  queue: "sync",
  retry: { maxAttempts: 1 },
  run() {
    throw new Error("503 backendError <b>unavailable</b>");
  },
});

/** A minute ago, so that jobs are due for longer than a deployment takes. */
const due = (): { runAt: Date } => ({ runAt: new Date(Date.now() - 60_000) });

/** Jobs of a type that no worker takes, and a queue that was paused. */
async function incident(hf: Holdfast): Promise<void> {
  for (let nth = 0; nth < 12; nth++) await hf.enqueue(sync, {});
  await hf.drain({ queues: ["sync"] });
  for (let nth = 0; nth < 3; nth++) await hf.enqueueNamed("video.encode", {}, { queue: "media", ...due() });
}

inBrowser("the Overview", () => {
  it("shows the way to the first job", async () => {
    const { page, open } = await openDashboard({ jobs: [mail] });
    await open("/");
    await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
  });

  it("says that nothing needs attention", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [mail] });
    await hf.enqueue(mail, {});
    await hf.drain();
    await open("/");
    await page.getByText("Nothing needs attention.").waitFor();
  });

  it("opens with warnings that lead to the jobs", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [mail, sync] });
    await incident(hf);
    hf.work({ queues: ["mail"] });
    await open("/");
    const alerts = page.getByRole("region", { name: "Needs attention" });
    await alerts.getByText("No worker takes video.encode.").waitFor();
    await alerts.getByText("12 gmail.sync jobs are dead with one error:").waitFor();
    expect(await alerts.getByText("backendError <b>unavailable</b>").count()).toBe(1);
    await alerts.getByRole("link", { name: "Show jobs" }).click();
    expect(new URL(page.url()).searchParams.get("q")).toBe("state:pending,failed type:video.encode");
    await page.goBack();
    await alerts.getByRole("link", { name: "Inspect" }).click();
    await page.getByRole("heading", { name: "Failures", level: 1 }).waitFor();
  });

  it("shows a viewer no actions and no changes", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [mail], role: "viewer" });
    await hf.enqueue(mail, {});
    await hf.pause();
    await open("/");
    await page.getByText("All queues are paused.").waitFor();
    expect(await page.getByRole("button", { name: /Resume all/ }).count()).toBe(0);
    expect(await page.getByRole("heading", { name: "Recent changes" }).count()).toBe(0);
  });

  it("has its range in the URL and its chart as a table", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [mail] });
    await hf.enqueue(mail, {});
    await open("/?range=24h");
    const range = page.getByRole("group", { name: "Range" });
    await range.getByRole("button", { name: "24 h", pressed: true }).waitFor();
    await page
      .getByRole("img", { name: /^Jobs finished per minute in the last 24 hours/ })
      .locator("svg")
      .waitFor();
    await page.getByRole("columnheader", { name: "Depth, last 24 hours" }).waitFor();
    const ofQueues = page.waitForRequest((request) =>
      /history\?(?=.*by=queue)(?=.*resolution=hour)/.test(request.url()),
    );
    await range.getByRole("button", { name: "30 d" }).click();
    const from = new URL((await ofQueues).url()).searchParams.get("from") ?? "";
    expect(Math.round((Date.now() - Date.parse(from)) / 86_400_000)).toBe(30);
    expect(new URL(page.url()).searchParams.get("range")).toBe("30d");
    await page
      .getByRole("img", { name: /in the last 30 days/ })
      .first()
      .waitFor();
    await page.getByText("Show as a table").first().press("Enter");
    const table = page.getByRole("region", { name: "Jobs finished per minute in the last 30 days" });
    await table.getByRole("row").nth(100).waitFor();
  });

  it("shows what is under the pointer", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [mail] });
    await hf.enqueue(mail, {});
    await open("/");
    const chart = page.getByRole("img", { name: /^Jobs finished per minute/ });
    await chart.locator("svg").waitFor();
    await chart.hover({ position: { x: 300, y: 100 } });
    await page.locator(".tip").getByText("failed attempts").waitFor();
    await page.mouse.move(0, 0);
    await page.locator(".tip").waitFor({ state: "detached" });
  });

  it("shows what the arrow keys choose", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [mail] });
    await hf.enqueue(mail, {});
    await open("/?range=24h");
    const chart = page.getByRole("img", { name: /^Jobs finished per minute/ });
    await chart.locator("svg .bars").first().waitFor({ state: "attached" });
    await chart.press("End");
    const time = page.getByRole("status").locator(".tip b");
    const last = await time.textContent();
    await chart.press("ArrowLeft");
    await expect.poll(() => time.textContent()).not.toBe(last);
    await chart.press("ArrowRight");
    await expect.poll(() => time.textContent()).toBe(last);
    await chart.press("Escape");
    await time.waitFor({ state: "detached" });
  });

  it("loads nothing while live updates are paused", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [mail], ownPage: true });
    await hf.enqueue(mail, {});
    await open("/");
    await page.getByText("Nothing needs attention.").waitFor();
    await page.waitForLoadState("load");
    await page.getByRole("button", { name: "Live" }).click();
    await page.getByRole("button", { name: "Paused" }).waitFor();
    // Hours pass in the browser.
    await page.clock.install();
    let requests = 0;
    page.on("request", () => requests++);
    await page.clock.runFor(600_000);
    expect(requests).toBe(0);
  });
});
