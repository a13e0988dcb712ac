import { readdirSync } from "node:fs";
import { join } from "node:path";
import { holdfast } from "holdfast";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import {
  folderOfTest,
  startExample,
  temporaryFolder,
  type Ended,
  type RunningExample,
  type TemporaryFolder,
} from "./run-example.js";

/** API tokens, keys of vendors, and everything as long as a session or a one-time token. */
const SECRET = /hf_[0-9a-f]{16}_|whsec_|sk_test_|(?<![\w-])[\w-]{43,}/;

let folders: TemporaryFolder[];
let walk: Ended;
/** One that stays, with its data in a folder. */
let staying: RunningExample;

beforeAll(async () => {
  folders = [await temporaryFolder(), await temporaryFolder()];
  const [temporary, data] = folders.map(({ path }) => path) as [string, string];
  staying = startExample("membership", { args: ["--stay", "--data", data] });
  walk = await startExample("membership", { temporary }).ended;
}, 60_000);
afterAll(async () => {
  await staying.end("SIGKILL");
  for (const { remove } of folders) await remove();
});

describe("the walk through the membership site", () => {
  /** The lines of a story, which must have passed. */
  function story(title: string): string {
    const [, lines] = new RegExp(`^✓ ${title}\n((?: {4}.+\n)+)`, "m").exec(walk.stdout) ?? [];
    if (lines === undefined) throw new Error(`the story ${title} did not pass:\n${walk.stdout}\n${walk.stderr}`);
    return lines;
  }

  it("ends with exit code 0, prints no secret, and leaves no data", () => {
    expect(walk).toMatchObject({ code: 0, stderr: "" });
    expect(walk.stdout).toMatch(/^13 stories in [\d.]+ s\. \d+ jobs are completed\.$/m);
    expect(walk.stdout).not.toMatch(SECRET);
    expect(readdirSync(folders[0]!.path)).toEqual([]);
  });

  it("signs up with a welcome mail, and refuses forms of other sites", () => {
    expect(story("Ada joins the club")).toMatch(/scrypt hash .* welcome mail arrived \d+ ms later[^]*refused with 403/);
  });

  it("E-09 resets a password, and stores no token", () => {
    expect(story("Ada forgets her password")).toMatch(
      /one job waits\. For an unknown address: the same response, no job\.\n.*no table holds the token/,
    );
  });

  it("E-05 retries a mail with the document's delays, and delivers a dead one", () => {
    expect(story("The mail server is down")).toMatch(/after 30, 60, 120 s .* then dead\.\n.* the mail arrived\./);
  });

  it("E-08 takes a payment, and applies a repeated event once", () => {
    expect(story("Ada becomes a reader")).toMatch(/her receipt arrived\. Each event got its 200 in \d+ ms or less/);
    expect(story("Stripe repeats an event, and someone forges one")).toMatch(
      /20 times 200, one job, one payment, one receipt\.\n.*400, and nothing is stored/,
    );
  });

  it("E-07 a former Discord account loses its role, and one that joins later gets it", () => {
    expect(story("Ada changes her Discord account")).toMatch(/former account lost the role.*got it when she joined/);
  });

  it("E-07 gives and takes Discord roles within Discord's limits", () => {
    expect(story("Discord roles follow memberships, within Discord's limits")).toMatch(
      /refused [1-9]\d* calls with 429\.\n.*all have their roles after \d+ ms/,
    );
    expect(story("Ada ends her membership")).toContain("her role is gone");
  });

  it("E-06 sends a newsletter once to each subscriber, and one whose job is lost", () => {
    expect(story("The editor sends a newsletter")).toMatch(
      /moved by 60 minutes, cancelled; then sent to 5 subscribers .* one mail each/,
    );
    expect(story("The job of a newsletter is lost")).toContain("pressed again, it found nothing");
  });

  it("reads the state of the queue, and opens the dashboard", () => {
    expect(story("A monitor reads the state of the queue")).toContain("2 pending and 1 failed. Without a token: 401.");
    expect(story("Staff open the dashboard")).toContain("a member gets 401. The sign-in link worked once.");
  });

  it("finds no secret in the database", () => {
    expect(story("Nothing secret is stored")).toMatch(/None of \d\d passwords, tokens, cookies and keys/);
  });
});

describe("the membership site", () => {
  const READY = /^The site runs until Ctrl-C\.$/m;

  it("serves pages with --stay until SIGTERM, and again from its folder until SIGINT", async () => {
    const folder = folders[1]!.path;
    await staying.printed(READY);
    const { site, inbox, link } = addressesIn(staying.stdout);
    expect(await open(site)).toEqual([200, "A club for people who read · Lantern Club"]);
    expect(await open(`${site}/sign-up`)).toEqual([200, "Join · Lantern Club"]);
    expect(await open(`${site}/staff/jobs/`)).toEqual([200, "Holdfast"]);
    expect((await fetch(`${site}/staff/jobs/api/admin/jobs`)).status).toBe(401);
    expect((await (await fetch(inbox)).text()).match(/Welcome to the Lantern Club/g)).toHaveLength(5);
    const cookie = await signIn(site, link);
    expect((await fetch(`${site}/staff/jobs/api/admin/jobs`, { headers: { cookie } })).status).toBe(200);
    expect(await staying.end("SIGTERM")).toMatchObject({ code: 0, stderr: "" });

    expect(readdirSync(folder)).toEqual(["membership.db"]);
    await expectNoSecretInJobs(join(folder, "membership.db"));

    const second = startExample("membership", { args: ["--stay", "--data", folder] });
    onTestFinished(async () => void (await second.end("SIGKILL")));
    await second.printed(READY);
    expect(second.stdout).toContain("the walk is left out");
    const again = addressesIn(second.stdout);
    const headers = { cookie: await signIn(again.site, again.link) };
    expect(await (await fetch(`${again.site}/staff/newsletters`, { headers })).text()).toContain("Spring");
    expect(await second.end("SIGINT")).toMatchObject({ code: 0, stderr: "" });
  });

  it("ends with exit code 1 and a sentence if a story fails", async () => {
    // Programs that link to the site get no response.
    const fault = "data:text/javascript,globalThis.fetch = () => Promise.reject(new Error('no network'))";
    const temporary = await folderOfTest();
    const { code, stdout } = await startExample("membership", { node: ["--import", fault], temporary }).ended;
    expect(code).toBe(1);
    expect(stdout).toMatch(/^✗ Ada joins the club\n {4}no network$/m);
    expect(readdirSync(temporary)).toEqual([]);
  });

  it.each([["--data", "club"], ["--unknown"]])("refuses %s with the usage", async (...args) => {
    const { code, stderr } = await startExample("membership", { args }).ended;
    expect(code).toBe(2);
    expect(stderr).toContain("Usage: npm run example -- membership");
  });
});

function addressesIn(output: string): { site: string; inbox: string; link: string } {
  const find = (pattern: RegExp): string => pattern.exec(output)?.[1] ?? "";
  return { site: find(/^Site +(\S+)/m), inbox: find(/^Inbox +(\S+)/m), link: find(/as the editor: (\S+)/) };
}

/** The status and the title of a page. */
async function open(url: string): Promise<[number, string]> {
  const response = await fetch(url, { headers: { accept: "text/html" } });
  return [response.status, /<title>(.*)<\/title>/.exec(await response.text())?.[1] ?? ""];
}

/** Signs in with the link, as its button does. Returns the cookie. */
async function signIn(site: string, link: string): Promise<string> {
  const response = await fetch(link, {
    method: "POST",
    redirect: "manual",
    body: new URLSearchParams(),
    headers: { origin: site },
  });
  expect([response.status, response.headers.get("location")]).toEqual([303, "/staff/newsletters"]);
  return response.headers
    .getSetCookie()
    .map((each) => each.split(";")[0])
    .join("; ");
}

/** Mails to members have the id of the member only. */
async function expectNoSecretInJobs(file: string): Promise<void> {
  const hf = await holdfast({ store: `sqlite:${file}`, logger: false });
  onTestFinished(() => hf.close());
  const { jobs } = await hf.list({ limit: 200 });
  expect(jobs.length).toBeGreaterThan(40);
  for (const { input, output, error } of jobs) expect(JSON.stringify([input, output, error])).not.toMatch(SECRET);
  const resets = jobs.filter(({ input }) => (input as { template?: string }).template === "password-reset");
  expect(resets).toHaveLength(4);
  for (const { input } of resets) expect(Object.keys((input as { data: object }).data)).toEqual(["user", "expiresAt"]);
}
