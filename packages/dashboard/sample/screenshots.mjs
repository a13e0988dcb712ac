// Makes screenshots of every view, light and dark, on the sample data of a shop: npm run screenshots -- [folder]
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { admin } from "holdfast/admin";
import { chromium } from "playwright-core";
import { serve } from "../../holdfast/dist/admin/http/serve.js";
import { shop } from "./shop.mjs";

const folder = process.argv[2] ?? "screenshots";
/** @type {string[]} */
const places = JSON.parse(readFileSync(join(import.meta.dirname, "chromium-paths.json"), "utf8"));
const executablePath = process.env["HOLDFAST_CHROMIUM"] || places.find((path) => existsSync(path));
if (executablePath === undefined) {
  console.error(
    "Chromium was not found: install it (Debian: apt install chromium), or set HOLDFAST_CHROMIUM to its path",
  );
  process.exit(1);
}

const { hf, live } = await shop();
const dead = (await hf.list({ state: "dead", type: "gmail.sync", limit: 1 })).jobs[0];
// People and machines.
const { token } = await hf.tokens.create({ name: "ada", role: "admin" });
await hf.tokens.create({ name: "grace", role: "operator", expiresIn: "90d" });
await hf.tokens.create({ name: "status-page", role: "viewer" });
const stopShop = live();
const api = admin(hf);
const server = await serve(api, { host: "127.0.0.1", port: 0 });
const { url } = server;
await change();

/**
 * @typedef {object} View
 * @property {string} path
 * @property {string} ready what is there when the view is complete
 * @property {string} [keys] pressed then
 * @property {string} [opens] what these keys open
 * @property {boolean} [isMain] also made for narrow screens
 * @property {boolean} [isSignedOut]
 */
/** @type {Record<string, View>} */
const views = {
  overview: { path: "/", ready: "main h2", isMain: true },
  jobs: { path: "/jobs", ready: "main tbody tr", isMain: true },
  "jobs-dead": { path: "/jobs?q=state:dead", ready: "main tbody tr", isMain: true },
  job: { path: `/jobs/${dead?.id}`, ready: "main h2", isMain: true },
  failures: { path: "/failures", ready: "main h2, main li", isMain: true },
  schedules: { path: "/schedules", ready: "main tbody tr", isMain: true },
  schedule: { path: "/schedules/nightly-report", ready: "main h2" },
  "schedule-dialog": { path: "/schedules?edit=nightly-report", ready: "dialog[open] form" },
  queues: { path: "/queues", ready: "main tbody tr", isMain: true },
  workers: { path: "/workers", ready: "main tbody tr", isMain: true },
  audit: { path: "/audit", ready: "main tbody tr" },
  tokens: { path: "/tokens", ready: "main tbody tr" },
  enqueue: { path: "/jobs", ready: ".top .btn", keys: "enqueue", opens: "dialog[open]" },
  palette: { path: "/jobs", ready: "main tbody tr", keys: "Control+k", opens: "dialog[open]" },
  login: { path: "/", ready: "form", isSignedOut: true },
};

mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({
  executablePath,
  // Chromium refuses to run its sandbox as root.
  args: [...(process.getuid?.() === 0 ? ["--no-sandbox"] : []), "--disable-gpu", "--disable-background-networking"],
});
let problems = 0;
try {
  await Promise.all([inScheme("light"), inScheme("dark")]);
} finally {
  await browser.close();
}
await stopShop();
await api.close();
await server.stop();
await hf.close();
process.exit(problems === 0 ? 0 : 1);

/** @param {"light" | "dark"} colorScheme */
async function inScheme(colorScheme) {
  for (const width of [1440, 1280, 1024, 375]) {
    const context = await browser.newContext({
      viewport: { width, height: { 375: 812, 1280: 800 }[width] ?? 900 },
      colorScheme,
      timezoneId: "Europe/Berlin",
      locale: "en-GB",
    });
    await context.request.post(`${url}/api/admin/session`, { data: { token }, headers: { origin: url } });
    for (const [name, view] of Object.entries(views)) {
      if (view.isMain !== true && width !== 1440) continue;
      if (view.isSignedOut === true) await context.clearCookies();
      await shoot(context, `${name}-${width}-${colorScheme}`, view);
    }
    await context.close();
  }
}

/** @param {import("playwright-core").BrowserContext} context @param {string} name @param {View} view */
async function shoot(context, name, { path, ready, keys, opens, isSignedOut }) {
  const page = await context.newPage();
  const report = (/** @type {string} */ text) => {
    // Before anyone has signed in, the server refuses to say who they are.
    if (isSignedOut === true && text.includes("401")) return;
    problems++;
    console.error(`${name}: ${text}`);
  };
  page.on("pageerror", (error) => report(error.message));
  page.on("console", (message) => message.type() === "error" && report(message.text()));
  await page.goto(`${url}${path}`);
  await page.locator(ready).first().waitFor();
  if (keys === "enqueue") await page.getByRole("button", { name: "Enqueue" }).first().click();
  else if (keys !== undefined) await page.keyboard.press(keys);
  if (opens !== undefined) await page.locator(opens).waitFor();
  // Figures of the event stream come within a second.
  await page.waitForTimeout(1_200);
  const file = join(folder, `${name}.png`);
  await page.screenshot({ path: file, animations: "disabled" });
  console.log(file);
  await page.close();
}

/** Changes by the API, for the audit log. */
async function change() {
  const post = (/** @type {string} */ path) =>
    fetch(`${url}/api/admin${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      body: "{}",
    });
  const responses = [
    await post("/queues/agents/pause"),
    await post("/queues/agents/resume"),
    await post(`/jobs/${dead?.id}/rerun`),
  ];
  for (const response of responses) if (!response.ok) throw new Error(`${response.url}: ${await response.text()}`);
}
