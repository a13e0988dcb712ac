import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { walkLog } from "./log.js";
import { readOptions, USAGE, type Options } from "./options.js";
import { DASHBOARD } from "./site/admin.js";
import { createEditor } from "./site/staff.js";
import { startSite } from "./site/start.js";
import { startVendors } from "./vendors/start.js";
import { walk } from "./walk/walk.js";

const FILE = "membership.db";

/** Returns the exit code. */
async function run({ stay, data }: Options, folder: string): Promise<number> {
  const file = join(folder, FILE);
  const hasData = existsSync(file);
  const stop = stopSignal();
  const log = walkLog();
  const vendors = await startVendors();
  const { site, close } = await startSite({ ...vendors.config, file, port: 0, logger: log.logger });
  vendors.stripe.sendTo(`${site.url}/api/v1/webhooks/stripe`);
  const editor = await createEditor(site);
  const urls = {
    Site: site.url,
    Newsletters: `${site.url}/staff/newsletters`,
    Dashboard: `${site.url}${DASHBOARD}/`,
    Inbox: vendors.inboxUrl,
    Discord: vendors.discord.url,
  };
  for (const [name, url] of Object.entries(urls)) console.log(`${name.padEnd(12)} ${url}`);
  console.log("");
  try {
    if (hasData) {
      console.log(`${data} has the data of an earlier start, so the walk is left out.`);
    } else {
      const result = await walk({ site, vendors, staffLink: editor.link(), signal: stop });
      if (result === "failed") {
        log.print();
        return 1;
      }
      if (result === "stopped") return stay ? 0 : INTERRUPTED;
    }
    log.follow();
    if (stay) {
      console.log(`\nSign in as the editor: ${editor.link()}`);
      console.log("The site runs until Ctrl-C.");
      if (!stop.aborted) await once(stop, "abort");
      console.log("\nEnding: requests and jobs in progress may finish.");
    }
    return 0;
  } finally {
    await close();
    await vendors.close();
  }
}

/** What shells use for a command that Ctrl-C ended. */
const INTERRUPTED = 130;

/** Aborted by the first Ctrl-C, or when the process is asked to end. A second one ends it at once. */
function stopSignal(): AbortSignal {
  const controller = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => controller.abort());
  return controller.signal;
}

async function main(options: Options): Promise<number> {
  const { data } = options;
  if (data !== null) {
    await mkdir(data, { recursive: true });
    return run(options, data);
  }
  const folder = await mkdtemp(join(tmpdir(), "membership-"));
  try {
    return await run(options, folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const options = readOptions(process.argv.slice(2));
if ("problem" in options) {
  console.error(`${options.problem}\n${USAGE}`);
  process.exitCode = 2;
} else {
  process.exitCode = await main(options);
}
