import { holdfast, type Holdfast, type HoldfastOptions, type JobType } from "holdfast";
import { admin, type Admin, type AdminOptions } from "holdfast/admin";
import type { BrowserContext, Page } from "playwright-core";
import { expect, onTestFinished } from "vitest";
import { addressOf, clientSchema, prepareSchema } from "../../holdfast/test/postgres/scene.js";
import { postgresServer } from "../../holdfast/test/postgres/server.js";
import { openStage } from "./stage.js";

export { inBrowser, useBrowser } from "./stage.js";

/** The stores that requirements are shown on, each with the URL of an empty one. Call once per file, outside of its tests. */
export function bothStores(): readonly (readonly [name: string, url: () => string])[] {
  const postgres = postgresServer();
  prepareSchema(postgres);
  return [
    ["SQLite", () => "sqlite::memory:"],
    ["PostgreSQL", () => addressOf(postgres.url(), clientSchema(postgres))],
  ];
}

export type Role = "user" | "viewer" | "operator" | "admin";

export interface DashboardOptions {
  jobs?: readonly JobType[];
  /** Default: in memory. */
  store?: string;
  /** Signs in with a token of this role. Default: no tokens exist, and everything is allowed. */
  role?: Role;
  user?: string;
  prefix?: string;
  width?: number;
  height?: number;
  colorScheme?: "light" | "dark";
  admin?: AdminOptions;
  client?: HoldfastOptions;
  /** Messages of the browser's console that belong to the test, such as that of a 401. */
  expected?: RegExp;
  /** The test changes what cannot be reset, such as the clock of the page. Default: tests of a file share a page. */
  ownPage?: boolean;
  /** Serves the API instead of Node's server of the file; resolves to its origin. */
  mount?: (api: Admin) => Promise<string>;
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
  /** Shows another view without loading the page again, as a link does. */
  show: (path: string) => Promise<void>;
  /** Ends the session, if there is one, and signs in with a new token of this role. */
  signIn: (role: Role, user?: string) => Promise<void>;
  /** What went wrong in the browser: console errors, exceptions, violations of the content security policy. */
  problems: string[];
}

/** A client, its admin API on loopback and a page. All are closed after the test, which fails if the browser had problems. */
export async function openDashboard(options: DashboardOptions = {}): Promise<Dashboard> {
  const { prefix = "", role, user, expected, ownPage = false, mount } = options;
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
  const stage = await openStage({
    api,
    isOwn: ownPage || mount !== undefined,
    width: options.width ?? 1_440,
    height: options.height ?? 900,
    colorScheme: options.colorScheme ?? "light",
  });
  const { page, context } = stage;
  const origin = mount === undefined ? stage.origin : await mount(api);
  const url = `${origin}${prefix}`;
  const problems: string[] = [];
  const watched = { origin, problems, expected };
  watch(page, watched);
  context.on("page", (other) => watch(other, watched));
  onTestFinished(async ({ task }) => {
    const hasFailed = task.result?.state === "fail" || problems.length > 0;
    await stage.leave({ keepsPage: !hasFailed });
    await api.close();
    await hf.close();
    expect(problems).toEqual([]);
  });
  const signIn: Dashboard["signIn"] = async (as, name) => {
    const { token } = await hf.tokens.create({ name: name ?? as, role: as, ...(name !== undefined && { user: name }) });
    await context.clearCookies();
    const response = await context.request.post(`${url}/api/admin/session`, { data: { token }, headers: { origin } });
    if (!response.ok()) throw new Error(`signing in failed: ${await response.text()}`);
  };
  if (role !== undefined) await signIn(role, user);
  return {
    page,
    context,
    hf,
    api,
    url,
    problems,
    signIn,
    async open(path) {
      await page.goto(`${url}${path}`);
      // Keys that are pressed before the page has started have no effect.
      await page.locator("main").first().waitFor();
    },
    show: (path) =>
      page.evaluate((href) => {
        history.pushState(null, "", href);
        dispatchEvent(new PopStateEvent("popstate"));
      }, `${prefix}${path}`),
  };
}

interface Watched {
  origin: string;
  problems: string[];
  expected?: RegExp | undefined;
}

/** Collects what must not happen on any page. */
export function watch(page: Page, { origin, problems, expected }: Watched): void {
  const add = (problem: string): void => {
    if (expected?.test(problem) !== true) problems.push(problem);
  };
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) add(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => add(`exception: ${error.message}`));
  page.on("request", (request) => {
    if (/^(?:https?|wss?):/.test(request.url()) && !request.url().startsWith(`${origin}/`))
      add(`another host: ${request.url()}`);
  });
}

/** Waits for a message that the page also reads aloud. */
export function announced(page: Page, text: string): Promise<void> {
  return page.getByRole("status").getByText(text).first().waitFor();
}

/** A promise and what ends it, for tests and handlers that wait for each other. */
export function signal(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => {};
  const promise = new Promise<void>((end) => (resolve = end));
  return { promise, resolve };
}
