import type { Admin } from "holdfast/admin";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, inject } from "vitest";
import { serve } from "../../holdfast/dist/admin/http/serve.js";
import { requestAddress } from "../../holdfast/test/shared-server.js";
import { chromiumPath } from "./browser.js";

declare module "vitest" {
  interface ProvidedContext {
    /** A request to this URL returns the address of the browser that all test files share. */
    sharedBrowser?: string;
  }
}

const isMissing = chromiumPath() === null;
if (isMissing && process.env["CI"] === "true") {
  throw new Error(
    "Chromium was not found: install it (Debian: apt install chromium), or set HOLDFAST_CHROMIUM to its path",
  );
}

/** `describe` for tests in a browser; they are skipped where there is none. */
export const inBrowser: typeof describe | typeof describe.skip = isMissing ? describe.skip : describe;

interface Tab {
  context: BrowserContext;
  page: Page;
}

let browser: Browser | undefined;
/** Node's server of the file. It serves the API of the test that runs. */
let server: Awaited<ReturnType<typeof serve>> | undefined;
let served: Pick<Admin, "fetch"> | null = null;
/** The page that the next test uses again: half of the time of a short test is that of a new page. */
let idle: Tab | null = null;

/** A page of the server without scripts, where tests begin and end. */
const BLANK = "/blank-page-of-the-tests";
const blank = (): Response => new Response("<!doctype html>", { headers: { "content-type": "text/html" } });

/** Call once per file. */
export function useBrowser(): void {
  beforeAll(async () => {
    if (isMissing) return;
    const url = inject("sharedBrowser");
    if (url === undefined) throw new Error("vitest must run with the global setup of this repository");
    browser = await chromium.connect(await requestAddress(url));
    server = await serve(
      {
        fetch: async (request, env) =>
          served === null || new URL(request.url).pathname === BLANK ? blank() : served.fetch(request, env),
      },
      { host: "127.0.0.1", port: 0 },
    );
  });
  afterAll(async () => {
    idle = null;
    await browser?.close();
    await server?.stop();
  });
}

/** What tests listen to. */
const WATCHED = ["console", "pageerror", "request"] as const;

interface StageOptions {
  api: Admin;
  /** Whether the test gets a page that no other test uses. */
  isOwn: boolean;
  width: number;
  height: number;
  colorScheme: "light" | "dark";
}

export interface Stage extends Tab {
  /** Where the API is served. */
  origin: string;
  /** Call before the API is closed. `keepsPage`: the next test may use the page. */
  leave: (options: { keepsPage: boolean }) => Promise<void>;
}

/** A page, and a server that serves the API of this test. */
export async function openStage({ api, isOwn, width, height, colorScheme }: StageOptions): Promise<Stage> {
  if (browser === undefined || server === undefined) throw new Error("call useBrowser() in this file first");
  const { url: origin } = server;
  const tab = (isOwn ? null : idle) ?? (await newTab(browser));
  if (!isOwn) idle = null;
  const { page, context } = tab;
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
  served = api;
  return {
    ...tab,
    origin,
    async leave({ keepsPage }) {
      // Before the server closes the connections of the page, which would be errors.
      context.removeAllListeners("page");
      for (const each of context.pages()) for (const type of WATCHED) each.removeAllListeners(type);
      if (keepsPage && !isOwn) {
        await reset(tab, `${origin}${BLANK}`);
        idle = tab;
      } else await context.close();
      served = null;
    },
  };
}

async function newTab(from: Browser): Promise<Tab> {
  const context = await from.newContext({ timezoneId: "Europe/Berlin", locale: "en-GB" });
  return { context, page: await context.newPage() };
}

/** Leaves the page, and forgets what it stored. */
async function reset({ context, page }: Tab, url: string): Promise<void> {
  for (const other of context.pages()) if (other !== page) await other.close();
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.goto(url);
  await page.evaluate(() => {
    localStorage.clear();
    sessionStorage.clear();
  });
  await context.clearCookies();
  await context.clearPermissions();
}
