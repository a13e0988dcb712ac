import { existsSync, readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import type { MakeCase } from "../case.js";

// The tests of the dashboard look in the same places.
const PLACES = new URL("../../../packages/dashboard/sample/chromium-paths.json", import.meta.url);

/** The Chromium of this machine, or the one that HOLDFAST_CHROMIUM names; null: none was found. */
export function chromiumPath(): string | null {
  const named = process.env["HOLDFAST_CHROMIUM"];
  if (named !== undefined && named !== "") return existsSync(named) ? named : null;
  const places = JSON.parse(readFileSync(PLACES, "utf8")) as string[];
  return places.find((path) => existsSync(path)) ?? null;
}

let wasSaid = false;

/** A case that is left out where there is no Chromium. */
export function inChromium(make: MakeCase): MakeCase {
  return (bench) => {
    if (chromiumPath() !== null) return make(bench);
    if (!wasSaid)
      console.error(
        "The cases of the dashboard are left out, because Chromium was not found: install it (Debian: apt install chromium), or set HOLDFAST_CHROMIUM to its path.",
      );
    wasSaid = true;
    return null;
  };
}

/** Starts Chromium, and closes it when the work ends. */
export async function withChromium<Result>(work: (browser: Browser) => Promise<Result>): Promise<Result> {
  const executablePath = chromiumPath();
  if (executablePath === null) throw new Error("Chromium was not found");
  const { chromium } = await import("playwright-core");
  const browser = await chromium.launch({
    executablePath,
    args: [
      // Chromium refuses to run its sandbox as root.
      ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
      "--disable-gpu",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--no-first-run",
    ],
  });
  try {
    return await work(browser);
  } finally {
    await browser.close();
  }
}

/** A window of a browser without anything in its cache. */
export const WINDOW: { viewport: { width: number; height: number } } = { viewport: { width: 1_440, height: 900 } };

/** Opens a page in a window of its own, and waits for an element. */
export async function inWindow(browser: Browser, url: string, ready: string): Promise<Page> {
  const context = await browser.newContext(WINDOW);
  const page = await context.newPage();
  await page.goto(url);
  await page.locator(ready).first().waitFor();
  return page;
}
