import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { holdfast, job } from "holdfast";
import { admin, type Admin } from "holdfast/admin";
import type { Page } from "playwright-core";
import { expect, it, onTestFinished } from "vitest";
import { serve } from "../../holdfast/dist/admin/http/serve.js";
import { proxyOf } from "./proxy.js";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

const sync = job({
  type: "gmail.sync",
  retry: { maxAttempts: 1 },
  run: () => {
    throw new Error("503 backendError");
  },
});

/** As a tab that is behind another one. */
async function setHidden(page: Page, isHidden: boolean): Promise<void> {
  await page.evaluate((value) => {
    Object.defineProperty(document, "hidden", { value, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden);
}

const row = (page: Page, type: string): ReturnType<Page["locator"]> =>
  page.locator("tr.job").filter({ hasText: type }).first();

inBrowser("live updates", () => {
  it("come over one stream for all tabs, which another tab takes over", { timeout: 60_000 }, async () => {
    const { context, page, hf, url } = await openDashboard({
      ownPage: true,
      expected: /^another host: http:\/\/127\.0\.0\.1/,
    });
    await hf.enqueueNamed("first", {}, { delay: "1h" });
    const proxy = await proxyOf(url);
    const tabs = [page, await context.newPage(), await context.newPage()];
    for (const tab of tabs) {
      await tab.goto(`${proxy.url}/jobs`);
      await row(tab, "first").waitFor();
    }
    await expect.poll(proxy.openStreams).toBe(1);
    await hf.enqueueNamed("second", {}, { delay: "1h" });
    for (const tab of tabs) await tab.getByRole("button", { name: "1 new" }).waitFor();
    expect(proxy.openStreams()).toBe(1);
    // The first tab has the stream.
    await setHidden(page, true);
    await expect.poll(proxy.streams).toBe(2);
    await expect.poll(proxy.openStreams).toBe(1);
    await hf.enqueueNamed("third", {}, { delay: "1h" });
    for (const tab of tabs.slice(1)) await tab.getByRole("button", { name: "2 new" }).waitFor();
    await tabs[1]?.close();
    await tabs[2]?.getByRole("button", { name: "2 new" }).waitFor();
    await expect.poll(proxy.openStreams).toBe(1);
  });

  it("have no stream while the page is hidden or paused, and catch up", async () => {
    const { page, hf, url } = await openDashboard({ ownPage: true, expected: /^another host: http:\/\/127\.0\.0\.1/ });
    const { id } = await hf.enqueueNamed("report", {}, { delay: "1h" });
    const proxy = await proxyOf(url);
    await page.goto(`${proxy.url}/jobs`);
    await row(page, "report").waitFor();
    await expect.poll(proxy.openStreams).toBe(1);
    await setHidden(page, true);
    await expect.poll(proxy.openStreams).toBe(0);
    await hf.cancel(String(id));
    await setHidden(page, false);
    await row(page, "report").getByText("cancelled").first().waitFor();
    await expect.poll(proxy.openStreams).toBe(1);
    await page.keyboard.press("p");
    await expect.poll(proxy.openStreams).toBe(0);
  });
});

inBrowser("an operation", () => {
  it("goes on after a restart of the server, with progress and a stop", { timeout: 60_000 }, async () => {
    const store = `sqlite:${join(tmpdir(), `restart-${randomUUID()}.db`)}`;
    let served: Pick<Admin, "fetch">;
    const { page, hf, api, open } = await openDashboard({
      store,
      jobs: [sync],
      admin: { auth: "open" },
      async mount(first) {
        served = first;
        const server = await serve(
          { fetch: (request, env) => served.fetch(request, env) },
          { host: "127.0.0.1", port: 0 },
        );
        onTestFinished(() => server.stop());
        return server.url;
      },
      // Responses of the server that ends.
      expected: /Failed to load resource|ERR_/,
    });
    const inputs = Array.from({ length: 60 }, () => undefined);
    await hf.enqueueMany(sync, inputs);
    await hf.drain();
    await open("/jobs?q=state:dead");
    await page.locator("tr.job").first().waitFor();
    await page.keyboard.press("a");
    await page.getByRole("button", { name: "Select all 60 matching" }).click();
    await page.keyboard.press("r");
    await page.getByRole("dialog").getByLabel("Jobs a second").fill("2");
    await page.getByRole("dialog").getByRole("button", { name: "Retry 60 jobs" }).click();
    const panel = page.getByRole("region", { name: "Operations" });
    const progress = panel.getByRole("progressbar");
    const shown = async (): Promise<number> => Number((await progress.getAttribute("aria-valuenow")) ?? 0);
    await expect.poll(shown, { timeout: 10_000 }).toBeGreaterThan(0);

    await api.close();
    await hf.close();
    const next = await holdfast({ store, jobs: [sync], logger: false });
    const nextApi = admin(next, { auth: "open" });
    onTestFinished(async () => {
      await nextApi.close();
      await next.close();
    });
    served = nextApi;
    // The filter and the operation are on the page as before, also after it is loaded again.
    await page.reload();
    expect(new URL(page.url()).searchParams.get("q")).toBe("state:dead");
    await progress.waitFor();
    const atRestart = await shown();
    await expect.poll(shown, { timeout: 20_000 }).toBeGreaterThan(atRestart);
    await panel.getByRole("button", { name: "Stop" }).click();
    await panel.getByText(/^Stopped\./).waitFor();
    const { states } = await next.stats();
    expect(states.pending).toBeGreaterThan(0);
    expect(states.dead).toBeGreaterThan(0);
  });
});
