import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { job } from "holdfast";
import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { z } from "zod";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

const fails = job({
  type: "gmail.sync",
  input: z.any(),
  retry: { maxAttempts: 1 },
  run: ({ log }) => {
    log("sync from history 17");
    throw new Error("503 backendError", { cause: new TypeError("no route") });
  },
});

/** A signal that a test waits on. */
function gate(): { opened: Promise<void>; open: () => void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}

/** The problems that axe-core calls serious or critical. */
async function seriousProblems(page: Page, part: string): Promise<string[]> {
  const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  await page.evaluate(axe);
  return page.evaluate(async (selector) => {
    const { axe: tool } = globalThis as unknown as {
      axe: {
        run: (part: string) => Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }>;
      };
    };
    const { violations } = await tool.run(selector);
    return violations
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 200)).join(" | ")}`);
  }, part);
}

inBrowser("the page of a job, slowly", () => {
  it("follows progress, log and end of a running job", async () => {
    const [half, end] = [gate(), gate()];
    const slow = job({
      type: "video.render",
      input: z.any(),
      run: async ({ progress, log }) => {
        progress(0.25, "frame 1");
        log("first line");
        await half.opened;
        progress(0.5, "frame 2");
        log("second line");
        await end.opened;
        return { frames: 2 };
      },
    });
    const { page, hf, open } = await openDashboard({ jobs: [slow] });
    const { id } = await hf.enqueue(slow, {});
    hf.work();
    await open(`/jobs/${id}`);
    await page.getByText("first line").waitFor();
    await page.getByRole("heading", { name: /^Worker .* runs it\.$/ }).waitFor();
    expect(await page.getByRole("progressbar").getAttribute("aria-valuenow")).toBe("25");
    half.open();
    await page.getByText("second line").waitFor();
    await page.getByText("frame 2").waitFor();
    end.open();
    await page.getByRole("heading", { name: /It completed/ }).waitFor();
    await page.getByRole("heading", { name: "Output" }).waitFor();
    expect(await page.getByRole("button", { name: /Retry/ }).count()).toBe(0);
  });

  it("has no serious problems of accessibility", async () => {
    for (const colorScheme of ["light", "dark"] as const) {
      const { page, hf, open } = await openDashboard({ jobs: [fails], colorScheme });
      const { id } = await hf.enqueue(fails, { a: { b: "c" }, n: 1.5, yes: true }, { user: "u", tags: ["eu"] });
      hf.work();
      await hf.result(id).catch(() => {});
      await open(`/jobs/${id}`);
      await page.getByRole("heading", { name: /Its only attempt failed/ }).waitFor();
      await page.locator(".list .num").first().waitFor();
      expect(await seriousProblems(page, "#content")).toEqual([]);
      await page.getByRole("button", { name: "Edit and rerun…" }).click();
      expect(await seriousProblems(page, "dialog")).toEqual([]);
    }
  });
});
