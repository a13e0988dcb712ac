import { job } from "holdfast";
import { expect, it } from "vitest";
import { z } from "zod";
import { engineOf } from "../../holdfast/dist/engine/client/holdfast.js";
import { newJob } from "../../holdfast/dist/testing/exercise-store/builders.js";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

class GmailError extends Error {
  override name = "GmailError";
  code = "GMAIL_503";
}

const fails = job({
  type: "gmail.sync",
  input: z.any(),
  queue: "sync",
  retry: { maxAttempts: 1 },
  run: ({ log }) => {
    log("sync from history 17");
    throw new GmailError("503 backendError", { cause: new TypeError("no route") });
  },
});
const receipt = job({
  type: "email.receipt",
  input: z.object({ to: z.email() }).loose(),
  run: () => ({ sent: [1, 2] }),
});

const talks = job({
  type: "talks",
  run({ log }) {
    for (let nth = 0; nth < 100; nth++) log(`line ${nth}`);
  },
});

async function finished(scene: Awaited<ReturnType<typeof openDashboard>>, id: string): Promise<void> {
  await scene.hf.result(id as never).catch(() => {});
}

inBrowser("the page of a job", () => {
  it("shows a dead job, and retries it with r", async () => {
    const scene = await openDashboard({ jobs: [fails, receipt] });
    const { page, hf, open } = scene;
    const { id } = await hf.enqueue(
      fails,
      { account: "ada", list: [1] },
      { user: "u-1", tags: ["eu"], unique: "sync:ada" },
    );
    hf.work();
    await finished(scene, id);
    await open(`/jobs/${id}`);
    await page.getByRole("heading", { name: "Why is it not running? Its only attempt failed." }).waitFor();
    await page.getByText("GmailError", { exact: true }).waitFor();
    await page.getByText("code GMAIL_503").waitFor();
    await page.getByText("sync from history 17").waitFor();
    expect(await page.locator(".cause code").textContent()).toContain("TypeError no route");
    expect(await page.locator(".tl li b").allTextContents()).toEqual(["pending", "running", "dead"]);
    expect(await page.getByRole("link", { name: "Same user" }).getAttribute("href")).toBe("/jobs?q=user%3Au-1");
    await page.keyboard.press("r");
    await page.locator(".toast", { hasText: "The job is due again, with fresh attempts." }).waitFor();
    // Its second life ends too, and the page follows.
    await page.getByText("Attempts used up").waitFor();
    await page.locator(".att").nth(1).waitFor();
  });

  it("says whether a retry would start at once", async () => {
    const scene = await openDashboard({ jobs: [fails], width: 375 });
    const { page, hf, open } = scene;
    const { id } = await hf.enqueue(fails, {});
    hf.work();
    await finished(scene, id);
    await open(`/jobs/${id}`);
    await page.getByText("If retried now, it would start at once").waitFor();
    await page.getByText("1 live worker takes gmail.sync").waitFor();
    await hf.pause("sync");
    await page.reload();
    await page.getByText("Queue sync has been paused for").waitFor();
    expect(await page.getByText("it would start at once").count()).toBe(0);
    // The whole menu is on the screen.
    await page.getByRole("button", { name: "More actions" }).click();
    const { x, width } = (await page.getByRole("menu").boundingBox()) ?? { x: -1, width: 0 };
    expect(x).toBeGreaterThanOrEqual(0);
    expect(x + width).toBeLessThanOrEqual(375);
  });

  it("shows the end of a long log", async () => {
    const scene = await openDashboard({ jobs: [talks] });
    const { page, hf, open } = scene;
    const { id } = await hf.enqueue(talks);
    hf.work();
    await finished(scene, id);
    await open(`/jobs/${id}`);
    const log = page.getByRole("list", { name: "Log" });
    await log.getByText("line 99").waitFor();
    expect(await log.evaluate((list) => list.scrollHeight - list.clientHeight - list.scrollTop)).toBeLessThan(2);
  });

  it("resumes the queue that holds a job back", async () => {
    const { page, hf, open } = await openDashboard({ jobs: [receipt] });
    await hf.pause("reports");
    const { id } = await hf.enqueue(receipt, { to: "a@b.co" }, { queue: "reports" });
    await open(`/jobs/${id}`);
    await page.getByRole("heading", { name: 'Queue "reports" has been paused' }).waitFor();
    await page.getByText("No worker is live.").waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("heading", { name: /No worker is live/ }).waitFor();
    expect((await hf.queues()).find(({ queue }) => queue === "reports")?.paused).toBe(false);
    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByRole("heading", { name: 'Queue "reports" has been paused' }).waitFor();
  });

  it("changes a waiting job, with undo", async () => {
    const { page, hf, open } = await openDashboard({ jobs: [receipt], expected: /400/ });
    const { id } = await hf.enqueue(receipt, { to: "a@b.co" }, { delay: "2h" });
    await open(`/jobs/${id}`);
    await page.getByRole("heading", { name: /It is due in/ }).waitFor();
    await page.keyboard.press("e");
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Priority").fill("7");
    const input = dialog.getByRole("textbox", { name: "Input" });
    await input.fill('{\n  "to": unknown\n}');
    await dialog.getByText('"unknown" is not a value.').waitFor();
    await dialog.getByRole("button", { name: "Line 2, column 9" }).click();
    expect(await input.evaluate((area: HTMLTextAreaElement) => area.selectionStart)).toBe(10);
    await input.fill('{"to":"unknown"}');
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.locator(".err code", { hasText: "to" }).waitFor();
    await input.fill('{"to":"c@d.co"}');
    await dialog.getByRole("button", { name: "Save" }).click();
    await page.locator(".toast", { hasText: "The job is changed." }).waitFor();
    expect(await hf.get(id)).toMatchObject({ priority: 7, input: { to: "c@d.co" } });
    await page.getByText('"c@d.co"').waitFor();
    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByText('"a@b.co"').waitFor();
    expect(await hf.get(id)).toMatchObject({ priority: 0, input: { to: "a@b.co" } });
    await page.getByRole("button", { name: "Run now" }).first().click();
    await page.locator(".toast", { hasText: "The job is due now." }).waitFor();
    await page.getByRole("heading", { name: /No worker is live/ }).waitFor();
  });

  it("reruns a job with another input", async () => {
    const scene = await openDashboard({ jobs: [receipt], expected: /400/ });
    const { page, hf, open } = scene;
    const { id } = await hf.enqueue(receipt, { to: "a@b.co", n: 1 });
    const worker = hf.work();
    await finished(scene, id);
    await worker.stop();
    await open(`/jobs/${id}`);
    await page.getByRole("button", { name: "Edit and rerun…" }).click();
    const dialog = page.getByRole("dialog");
    const input = dialog.getByRole("textbox", { name: "Input" });
    expect(JSON.parse(await input.inputValue())).toEqual({ to: "a@b.co", n: 1 });
    await input.fill('{"to":9007199254740993}');
    await dialog.getByText(/Send it as a string/).waitFor();
    await input.fill('{"to":1}');
    await dialog.getByRole("button", { name: "Enqueue a new job" }).click();
    await dialog.locator(".err code", { hasText: "to" }).waitFor();
    await input.fill('{"to":"e@f.co"}');
    await input.press("Control+Enter");
    await page.getByText('"e@f.co"').waitFor();
    expect(page.url()).not.toContain(id);
  });

  it("asks before it cancels and deletes", async () => {
    const { page, hf, open } = await openDashboard({ jobs: [receipt], expected: /404/ });
    const { id } = await hf.enqueue(receipt, { to: "a@b.co" }, { delay: "2h" });
    await open(`/jobs/${id}`);
    const more = page.getByRole("button", { name: "More actions" });
    await more.focus();
    await page.keyboard.press("Enter");
    await page.getByRole("menuitem", { name: "Cancel the job…" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("menu").waitFor({ state: "hidden" });
    expect(page.url()).toContain(id);
    await more.click();
    await page.getByRole("menuitem", { name: "Cancel the job…" }).click();
    await page.getByRole("button", { name: "Keep it" }).click();
    expect((await hf.get(id))?.state).toBe("pending");
    await more.click();
    await page.getByRole("menuitem", { name: "Cancel the job…" }).click();
    await page.getByRole("button", { name: "Cancel the job" }).click();
    await page.getByRole("heading", { name: /It was cancelled/ }).waitFor();
    await more.click();
    await page.getByRole("menuitem", { name: "Delete…" }).click();
    await page.getByRole("button", { name: "Delete the job" }).click();
    await page.locator(".toast", { hasText: "The job is deleted." }).waitFor();
    expect(await hf.get(id)).toBeNull();
    expect(page.url()).toMatch(/\/jobs$/);
  });

  it("says that a job does not exist, or was deleted", async () => {
    const { page, hf, open } = await openDashboard({ jobs: [fails], expected: /404/ });
    await open("/jobs/01a1f04f-0ca2-7000-813e-770671a7f5c4");
    await page.getByRole("heading", { name: "No job has this id." }).waitFor();
    const { id } = await hf.enqueue(fails, {}, { delay: "1h" });
    await open(`/jobs/${id}`);
    await page.getByRole("button", { name: "Run now" }).first().waitFor();
    await hf.remove(id);
    // The page may learn it from the event stream before the button is pressed.
    void page
      .getByRole("button", { name: "Run now" })
      .first()
      .click()
      .catch(() => {});
    await page.getByText("This job was deleted meanwhile.").waitFor();
    expect(await page.getByRole("button", { name: "Run now" }).count()).toBe(0);
    await page.keyboard.press("Escape");
    await page.waitForURL(/\/jobs$/);
  });

  it("shows hostile text as text", async () => {
    const evil = "<script>alert(1)</script>";
    const { page, hf, open } = await openDashboard({ width: 375, client: { redact: ["input.secret"] } });
    const { id } = await hf.enqueueNamed(
      `${evil}\u202e`,
      {
        [evil]: "<img src=x onerror=alert(1)>",
        secret: "s3cret",
        big: "x".repeat(100_000),
        many: Array.from({ length: 250 }, (_, at) => at),
        rtl: "\u202eabc",
        url: "javascript:alert(1)",
      },
      { user: evil, queue: evil, tags: [evil, "javascript:alert(1)"], delay: "1h" },
    );
    await open(`/jobs/${id}`);
    await page.getByText("<img src=x onerror=alert(1)>").waitFor();
    expect(await page.getByRole("heading", { name: evil }).count()).toBe(1);
    expect(await page.content()).not.toContain("s3cret");
    await page.locator(".json .red", { hasText: "redacted" }).waitFor();
    await page.getByText('"\\u202eabc"').waitFor();
    expect(await page.locator('a[href^="javascript:"]').count()).toBe(0);
    expect((await page.locator(".json").textContent())?.length).toBeLessThan(2_000);
    await page.locator(".json summary", { hasText: "many" }).click();
    await page.getByRole("button", { name: "Show 100 more of 150" }).click();
    await page.getByRole("button", { name: "Show 50 more of 50" }).waitFor();
    await page.getByRole("button", { name: /19,700 more of 99,700/ }).click();
    await page.getByRole("button", { name: /20,000 more of 80,000/ }).waitFor();
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    expect(overflow).toBe(0);
  });

  it("copies the exact text of a payload", async () => {
    const { page, hf, context, open } = await openDashboard({ jobs: [receipt] });
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    const { id } = await hf.enqueue(receipt, { to: "a@b.co", total: 0.1, id: 9007199254740991 }, { delay: "1h" });
    await open(`/jobs/${id}`);
    await page.getByRole("button", { name: "Copy the input" }).click();
    await page.getByText("Copied", { exact: true }).waitFor();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    expect(copied).toBe('{"to":"a@b.co","total":0.1,"id":9007199254740991}');
    await page.getByRole("button", { name: "Raw" }).click();
    expect(await page.locator(".raw").textContent()).toBe(copied);
  });

  it("keeps all digits of stored numbers", async () => {
    const { page, hf, context, open } = await openDashboard();
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    const input = '{"order":9007199254740993871,"price":0.1000000000000000055}';
    const stored = newJob({ type: "mail", input });
    await engineOf(hf).store.insert([stored]);
    await open(`/jobs/${stored.id}`);
    await page.getByText("9007199254740993871", { exact: true }).waitFor();
    expect(await page.locator(".json .n").allTextContents()).toEqual(["9007199254740993871", "0.1000000000000000055"]);
    await page.getByRole("button", { name: "Copy the input" }).click();
    await page.getByText("Copied", { exact: true }).waitFor();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(input);
  });

  it("offers no Undo for a secret that was replaced", async () => {
    const { page, hf, open } = await openDashboard({ client: { redact: ["input.token"] } });
    const { id } = await hf.enqueueNamed("mail", { to: "a@b.co", token: "old" }, { delay: "2h" });
    await open(`/jobs/${id}`);
    await page.getByRole("heading", { name: /It is due in/ }).waitFor();
    await page.keyboard.press("e");
    await page.getByText("“[redacted]” keeps the stored value.").waitFor();
    await page.getByRole("textbox", { name: "Input" }).fill('{"to":"a@b.co","token":"new"}');
    await page.getByRole("button", { name: "Save" }).click();
    await page.locator(".toast", { hasText: "The job is changed." }).waitFor();
    expect(await page.getByRole("button", { name: "Undo" }).count()).toBe(0);
    expect((await hf.get(id))?.input).toEqual({ to: "a@b.co", token: "new" });
  });

  it("has no actions that a role may not use", async () => {
    const buttons = async (role: "viewer" | "operator" | "user"): Promise<string[]> => {
      const { page, hf, open } = await openDashboard({
        jobs: [receipt],
        role,
        ...(role === "user" && { user: "u-1" }),
      });
      const { id } = await hf.enqueue(receipt, { to: "a@b.co" }, { delay: "1h", user: "u-1" });
      await open(`/jobs/${id}`);
      await page.getByRole("heading", { name: /It is due/ }).waitFor();
      const shown = await page.locator(".job-h .acts-n button:visible").allTextContents();
      const more = page.getByRole("button", { name: "More actions" });
      if ((await more.count()) > 0) {
        await more.click();
        shown.push(...(await page.getByRole("menuitem").allTextContents()));
      }
      return shown.filter((text) => text !== "");
    };
    expect(await buttons("viewer")).toEqual([]);
    expect(await buttons("user")).toEqual(["Cancel the job…"]);
    expect(await buttons("operator")).toEqual(["Edit…", "Run nowr", "Cancel the job…", "Rerun with the same input"]);
  });
});
