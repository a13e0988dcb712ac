import { job } from "holdfast";
import { expect } from "vitest";
import { MOUNTS } from "../../../holdfast/test/admin/mounts.js";
import { announced, openDashboard, type Dashboard } from "../scene.js";

let isBroken = true;
const mail = job({ type: "email.welcome", run: () => "sent" });
const sync = job({
  type: "gmail.sync",
  retry: { maxAttempts: 1 },
  run() {
    if (isBroken) throw new Error("503 backendError");
  },
});
export const jobs = [mail, sync] as const;

/**
 * What an operator does with the dashboard while a worker runs jobs. Signing in, deep links, the event stream and every kind of call
 * depend on where it is mounted.
 */
export async function takeJourney({ page, hf, url }: Pick<Dashboard, "page" | "hf" | "url">): Promise<void> {
  isBroken = true;
  hf.work();
  const { token } = await hf.tokens.create({ name: "ada", role: "admin" });
  // As someone types it, without a slash at its end.
  await page.goto(url);
  await page.getByLabel("API token").fill(token);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
  await page.getByRole("link", { name: "Jobs", exact: true }).click();
  expect(page.url()).toBe(`${url}/jobs`);

  // The event stream brings the first jobs into an empty list, and their changes into its rows.
  const { id } = await hf.enqueue(sync);
  const row = page.getByRole("row").filter({ hasText: "gmail.sync" });
  await row.filter({ hasText: "503 backendError" }).getByText("dead").first().waitFor();
  await hf.enqueue(mail);
  await page.getByRole("button", { name: "1 new" }).click();
  await page.getByRole("row").filter({ hasText: "email.welcome" }).getByText("completed").first().waitFor();

  await row.getByRole("link").click();
  expect(page.url()).toBe(`${url}/jobs/${id}`);
  await page.reload();
  isBroken = false;
  await page.getByRole("button", { name: "Retry" }).click();
  await announced(page, "The job is due again, with fresh attempts.");
  await page.getByRole("heading", { name: /It completed/ }).waitFor();

  await page.getByRole("link", { name: "Schedules", exact: true }).click();
  await page.getByRole("button", { name: "New schedule" }).click();
  const dialog = page.getByRole("dialog", { name: "New schedule" });
  await dialog.getByLabel("Name").fill("nightly/mail");
  await dialog.getByLabel("Job type").fill("email.welcome");
  await dialog.getByLabel("Runs").fill("30 2 * * *");
  await dialog.getByRole("button", { name: "Create schedule" }).click();
  await announced(page, "Created nightly/mail.");
  await page.getByRole("switch", { name: "nightly/mail is enabled" }).click();
  await announced(page, "Disabled nightly/mail.");
  await page.getByRole("link", { name: "nightly/mail" }).click();
  await page.getByText("None: the schedule is disabled.").waitFor();
  await page.reload();
  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByLabel(/to confirm/).fill("nightly/mail");
  await page.keyboard.press("Enter");
  await announced(page, "Deleted nightly/mail.");
  await page.getByRole("heading", { name: "No schedules yet" }).waitFor();

  await page.getByRole("button", { name: "ada · admin" }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("API token").waitFor();
}

export type Mounted = readonly [framework: string, prefix: string, store: string];

/** The journey through a dashboard that is mounted in a framework, beside a route of the application. */
export async function journeyIn(
  [framework, prefix, storeName]: Mounted,
  stores: ReadonlyMap<string, () => string>,
): Promise<void> {
  const store = stores.get(storeName);
  const mount = new Map(MOUNTS).get(framework);
  if (store === undefined || mount === undefined) throw new Error(`there is no ${framework} or no ${storeName}`);
  const scene = await openDashboard({
    store: store(),
    prefix,
    jobs,
    admin: { auth: "tokens" },
    mount: (api) => mount(api, prefix),
    expected: /401/,
  });
  await takeJourney(scene);
  expect(await (await fetch(new URL("/own", scene.url))).text()).toBe("own");
}
