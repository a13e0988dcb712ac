import { job } from "holdfast";
import type { Locator, Page } from "playwright-core";
import { expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { announced, inBrowser, openDashboard, signal, useBrowser, type bothStores, type Dashboard } from "../scene.js";

/** Opens a shop whose worker runs jobs while the test looks at them: one of each state. */
async function openShop(store: string): Promise<Dashboard & { endVideo: () => void; repair: () => void }> {
  const video = signal();
  let isBroken = true;
  const jobs = [
    job({ type: "email.welcome", input: z.any(), queue: "mail", run: () => "sent" }),
    job({
      type: "gmail.sync",
      input: z.any(),
      queue: "sync",
      retry: { maxAttempts: 1 },
      run() {
        if (isBroken) throw new Error("503 backendError: unavailable");
      },
    }),
    job({
      type: "invoice.render",
      input: z.any(),
      retry: { maxAttempts: 3, backoff: { base: 600_000, max: 600_000 } },
      run() {
        throw new TypeError("no template");
      },
    }),
    job({
      type: "video.encode",
      input: z.any(),
      queue: "media",
      async run({ progress, signal: cancelled }) {
        progress(0.41, "2,050 of 5,000 frames");
        await Promise.race([video.promise, new Promise((resolve) => cancelled.addEventListener("abort", resolve))]);
        cancelled.throwIfAborted();
      },
    }),
  ] as const;
  const [mail, sync, render, encode] = jobs;
  const scene = await openDashboard({ store, jobs, role: "admin" });
  const { hf } = scene;
  const later = await hf.enqueue(mail, {}, { user: "ada", delay: "2h", tags: ["later"] });
  await hf.cancel(later.id);
  hf.work();
  onTestFinished(() => video.resolve());
  const sent = await hf.enqueue(mail, {}, { user: "ada" });
  const synced = await hf.enqueue(sync, {}, { user: "eve" });
  const rendered = await hf.enqueue(render, {});
  const encoded = await hf.enqueue(encode, {});
  await hf.enqueue(mail, {}, { user: "eve", delay: "3h", queue: "reminders" });
  await hf.result(sent.id);
  await hf.result(synced.id).catch(() => {});
  await expect.poll(async () => (await hf.get(rendered.id))?.state).toBe("failed");
  await expect.poll(async () => (await hf.get(encoded.id))?.progress?.note).toBeDefined();
  return { ...scene, endVideo: () => video.resolve(), repair: () => void (isBroken = false) };
}

const row = (page: Page, ...words: string[]): Locator =>
  words.reduce((found, word) => found.filter({ hasText: word }), page.getByRole("row"));
const colour = (of: Locator): Promise<string> =>
  of
    .locator("svg:visible")
    .first()
    .evaluate((icon) => getComputedStyle(icon).color);

/** Runs on SQLite with `npm test`, and on PostgreSQL with `npm run test:all`. */
export function jobsOn(stores: ReturnType<typeof bothStores>): void {
  useBrowser();

  inBrowser.each(stores)("jobs on %s", (_name, store) => {
    it("C-19 lists state, type, time, attempts and error", async () => {
      const { page, open, endVideo } = await openShop(store());
      await open("/jobs");
      await row(page, "gmail.sync").waitFor();
      const texts: Record<string, RegExp> = {
        pending: /email\.welcome.*reminders.*eve.*0 \/ 4.*due in [23] h/s,
        running: /video\.encode.*media.*41% · 2,050 of 5,000 frames.*1 \/ 4.*started/s,
        failed: /invoice\.render.*no template.*1 \/ 3.*retries in/s,
        completed: /email\.welcome.*mail.*ada.*1 \/ 4.*took/s,
        dead: /gmail\.sync.*sync.*eve.*503 backendError: unavailable.*1 \/ 1.*died/s,
        cancelled: /email\.welcome.*mail.*ada.*0 \/ 4.*cancelled/s,
      };
      for (const [state, text] of Object.entries(texts))
        await expect.poll(() => row(page, state).innerText()).toMatch(text);
      const colours = await Promise.all(Object.keys(texts).map((state) => colour(row(page, state))));
      expect(new Set(colours).size).toBe(colours.length);
      // The row changes by itself when the job ends.
      endVideo();
      await row(page, "video.encode", "completed").waitFor();
    });

    it("C-19 filters by state, type, user and error", async () => {
      const { page, open } = await openShop(store());
      await open("/jobs");
      await row(page, "gmail.sync").waitFor();
      const shown = async (): Promise<string[]> =>
        (await page.getByRole("row").locator("a").allTextContents()).toSorted();
      await page
        .getByRole("group", { name: "State" })
        .getByRole("button", { name: /^dead 1$/ })
        .click();
      await expect.poll(shown).toEqual(["gmail.sync"]);
      const field = page.getByRole("combobox", { name: "Filter jobs" });
      const filter = async (text: string): Promise<void> => {
        await page.getByRole("button", { name: "Clear", exact: true }).click();
        await expect.poll(shown).toHaveLength(6);
        await field.fill(text);
        await field.press("Enter");
      };
      await filter("type:email.* user:ada");
      await expect.poll(shown).toEqual(["email.welcome", "email.welcome"]);
      await filter("error:template");
      await expect.poll(shown).toEqual(["invoice.render"]);
      await filter("queue:media");
      await expect.poll(shown).toEqual(["video.encode"]);
    });

    it("C-19 retries and cancels where the state allows it", async () => {
      const { page, open, repair } = await openShop(store());
      repair();
      await open("/jobs?q=state:dead");
      await row(page, "gmail.sync").getByRole("link").click();
      await page.getByRole("button", { name: "Retry" }).click();
      await announced(page, "The job is due again, with fresh attempts.");
      await page.getByRole("heading", { name: /It completed/ }).waitFor();
      expect(await page.getByRole("button", { name: "Retry" }).count()).toBe(0);
      // One that runs is asked to stop, and its handler does.
      await open("/jobs?q=state:running");
      await row(page, "video.encode").getByRole("link").click();
      await page.getByRole("button", { name: "More actions" }).click();
      await page.getByRole("menuitem", { name: "Cancel the job…" }).click();
      await page.getByRole("button", { name: "Cancel the job" }).click();
      await page.getByRole("heading", { name: /It was cancelled/ }).waitFor();
      // One that waits, from the list.
      await open("/jobs?q=state:pending");
      await row(page, "reminders").getByRole("checkbox").click();
      await page.getByRole("toolbar").getByRole("button", { name: "Cancel…" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Cancel 1 job" }).click();
      await announced(page, "1 job cancelled.");
      await row(page, "reminders", "cancelled").waitFor();
    });
  });
}
