import { once } from "node:events";
import { join } from "node:path";
import { loadConfig } from "holdfast/config";
import { startPostgres } from "./postgres.js";
import { Tour } from "./walk/tour.js";
import { printAddresses, walk } from "./walk/walk.js";

const options = process.argv.slice(2);
const unknown = options.find((option) => option !== "--stay");
if (unknown !== undefined) {
  console.error(`${unknown} is not an option. Use --stay, which keeps the backend running after the walk.`);
  process.exit(2);
}

const interrupted = Promise.race(["SIGINT", "SIGTERM", "SIGHUP"].map((signal) => once(process, signal)));

/** Those of holdfast.toml in this folder, overridden by variables such as HOLDFAST_JOBS_CONCURRENCY. */
const settings = (env: Readonly<Record<string, string>> = {}) =>
  loadConfig({ file: join(import.meta.dirname, "../holdfast.toml"), env: { ...process.env, ...env } });

async function main(): Promise<void> {
  const postgres = await startPostgres();
  try {
    const tour = await Tour.start(postgres.url, settings);
    try {
      printAddresses(tour);
      await Promise.race([walk(tour), interrupted.then(() => Promise.reject(new Error("Interrupted.")))]);
      if (!options.includes("--stay")) return;
      console.log("\nThe backend keeps running until Ctrl-C.");
      printAddresses(tour);
      await interrupted;
    } finally {
      await tour.stop();
    }
  } finally {
    await postgres.stop();
  }
}

try {
  await main();
  process.exit(0);
} catch (error) {
  console.error(`\n✗ ${error instanceof Error ? error.message : String(error)}`);
  process.exit(1);
}
