import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { walkLog } from "./log.js";
import { readOptions, USAGE, type Options } from "./options.js";
import { DASHBOARD } from "./site/admin.js";
import { startSite } from "./site/start.js";
import { createEditor } from "./site/staff.js";
import { startVendors } from "./vendors/start.js";
import { walk } from "./walk/walk.js";

const print = (line: string): void => console.log(line);

/** Resolves on Ctrl-C, or when the process is asked to end. */
function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve());
  });
}

async function main({ stay, data }: Options): Promise<boolean> {
  const stopped = stopSignal();
  const folder = data ?? (await mkdtemp(join(tmpdir(), "membership-")));
  await mkdir(folder, { recursive: true });
  const file = join(folder, "membership.db");
  const isNew = !existsSync(file);
  const vendors = await startVendors();
  const log = walkLog();
  const { site, close } = await startSite({ ...vendors.config, file, port: 0, logger: log.logger });
  vendors.stripe.sendTo(`${site.url}/api/v1/webhooks/stripe`);
  const editor = await createEditor(site);
  const urls = {
    Site: site.url,
    Dashboard: `${site.url}${DASHBOARD}/`,
    "Newsletter editor": `${site.url}/staff/newsletters`,
    Inbox: vendors.inboxUrl,
    "Discord server": vendors.discord.url,
  };
  for (const [name, url] of Object.entries(urls)) print(`${name.padEnd(18)} ${url}`);
  print("");
  try {
    const walked = isNew ? walk({ site, vendors, staffLink: editor.link(), print }) : walkedBefore();
    const isRight = await Promise.race([walked, stopped.then(() => true)]);
    if (!isRight) log.print();
    if (stay && isRight) {
      log.follow();
      print(`\nSign in as the editor: ${editor.link()}`);
      print("The site runs until Ctrl-C.");
      await stopped;
      print("\nEnding: requests and jobs in progress may finish.");
    }
    return isRight;
  } finally {
    await close();
    await vendors.close();
    if (data === null) await rm(folder, { recursive: true, force: true });
  }
}

async function walkedBefore(): Promise<boolean> {
  print("The folder has the data of an earlier start, so the walk is left out.");
  return true;
}

try {
  process.exitCode = (await main(readOptions(process.argv.slice(2)))) ? 0 : 1;
} catch (error) {
  console.error(`${(error as Error).message}\n${USAGE}`);
  process.exitCode = 2;
}
