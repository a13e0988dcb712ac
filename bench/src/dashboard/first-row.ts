import type { Browser } from "playwright-core";
import { WINDOW } from "./browser.js";

interface Measured {
  firstRow: Promise<number>;
}

/** Opens the list of jobs in a new window, without a cache. Returns the milliseconds from the navigation to the first row of jobs. */
export async function timeToFirstRow(browser: Browser, origin: string): Promise<number> {
  const context = await browser.newContext(WINDOW);
  try {
    const page = await context.newPage();
    await page.addInitScript(watchFirstRow);
    await page.goto(`${origin}/jobs`, { waitUntil: "commit" });
    return await page.evaluate(() => (window as unknown as Measured).firstRow);
  } finally {
    await context.close();
  }
}

/** Runs in the page before its own scripts. */
function watchFirstRow(): void {
  const measured = window as unknown as Measured;
  measured.firstRow = new Promise((resolve) => {
    const observer = new MutationObserver(() => {
      if (document.querySelector("tr.job") === null) return;
      observer.disconnect();
      // A message that is sent while a frame is made arrives when it has been painted.
      requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port1.addEventListener("message", () => resolve(performance.now()));
        port1.start();
        port2.postMessage(null);
      });
    });
    observer.observe(document, { childList: true, subtree: true });
  });
}
