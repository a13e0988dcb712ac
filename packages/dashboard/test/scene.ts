import { holdfast, type Holdfast, type HoldfastOptions, type JobType } from "holdfast";
import { admin, type Admin, type AdminOptions } from "holdfast/admin";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished } from "vitest";
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

let browser: Browser | undefined;

/** Call once per file. */
export function useBrowser(): void {
  beforeAll(async () => {
    if (isMissing) return;
    const url = inject("sharedBrowser");
    if (url === undefined) throw new Error("vitest must run with the global setup of this repository");
    browser = await chromium.connect(await requestAddress(url));
  });
  afterAll(() => browser?.close());
}

export interface DashboardOptions {
  jobs?: readonly JobType[];
  /** Default: in memory. */
  store?: string;
  /** Signs in with a token of this role. Default: no tokens exist, and everything is allowed. */
  role?: "user" | "viewer" | "operator" | "admin";
  user?: string;
  prefix?: string;
  width?: number;
  height?: number;
  colorScheme?: "light" | "dark";
  admin?: AdminOptions;
  client?: HoldfastOptions;
  /** Messages of the browser's console that belong to the test, such as that of a 401. */
  expected?: RegExp;
}

export interface Dashboard {
  page: Page;
  context: BrowserContext;
  hf: Holdfast;
  api: Admin;
  /** Of the start page, without a slash at its end. */
  url: string;
  /** Opens a view: `/jobs?q=state:dead`. */
  open: (path: string) => Promise<void>;
  /** What went wrong in the browser: console errors, exceptions, violations of the content security policy. */
  problems: string[];
}

/** A client, its admin API on loopback and a page. All are closed after the test, which fails if the browser had problems. */
export async function openDashboard(options: DashboardOptions = {}): Promise<Dashboard> {
  if (browser === undefined) throw new Error("call useBrowser() in this file first");
  const { prefix = "", role, user, expected } = options;
  const hf = await holdfast({
    store: options.store ?? "sqlite::memory:",
    jobs: options.jobs ?? [],
    logger: false,
    ...options.client,
  });
  const api = admin(hf, {
    auth: role === undefined ? "open" : "tokens",
    ...(prefix !== "" && { basePath: prefix }),
    ...options.admin,
  });
  const server = await serve(api, { host: "127.0.0.1", port: 0 });
  const context = await browser.newContext({
    viewport: { width: options.width ?? 1_440, height: options.height ?? 900 },
    colorScheme: options.colorScheme ?? "light",
    timezoneId: "Europe/Berlin",
    locale: "en-GB",
  });
  const problems: string[] = [];
  const page = await context.newPage();
  watch(page, problems, expected);
  const url = `${server.url}${prefix}`;
  onTestFinished(async () => {
    await context.close();
    await api.close();
    await server.stop();
    await hf.close();
    expect(problems).toEqual([]);
  });
  if (role !== undefined) {
    const { token } = await hf.tokens.create({ name: user ?? role, role, ...(user !== undefined && { user }) });
    const response = await context.request.post(`${url}/api/admin/session`, {
      data: { token },
      headers: { origin: server.url },
    });
    if (!response.ok()) throw new Error(`signing in failed: ${await response.text()}`);
  }
  const open = async (path: string): Promise<void> => {
    await page.goto(`${url}${path}`);
    // Keys that are pressed before the page has started have no effect.
    await page.locator("main").first().waitFor();
  };
  return { page, context, hf, api, url, open, problems };
}

/** Collects what must not happen on any page. */
export function watch(page: Page, problems: string[], expected?: RegExp): void {
  const add = (problem: string): void => {
    if (expected?.test(problem) !== true) problems.push(problem);
  };
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) add(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => add(`exception: ${error.message}`));
}
