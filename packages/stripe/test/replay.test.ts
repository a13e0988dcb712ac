import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import Sqlite from "better-sqlite3";
import { holdfast } from "holdfast";
import { describe, expect, it, onTestFinished } from "vitest";
import { describeDatabases } from "../../holdfast/test/pack/scene.js";
import { stripe } from "../dist/index.js";
import { invoicePaid, SECRET, signed } from "./scene.js";
import { replayTests } from "./replay-suite.js";

describeDatabases(replayTests, ["sqlite"]);

describe("holdfast-stripe", () => {
  const bin = fileURLToPath(new URL("../dist/bin.js", import.meta.url));
  const run = promisify(execFile);

  it("replays an event of the jobs module", async () => {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-stripe-test-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const db = new Sqlite(join(folder, "app.db"));
    const pack = stripe({ db, webhookSecrets: SECRET, on: {} });
    const hf = await holdfast({ store: `sqlite:${join(folder, "app.db")}`, jobs: pack.jobs, logger: false });
    await pack.install(hf);
    const event = invoicePaid();
    await pack.webhook(hf)(signed(event));
    await hf.drain();
    const home = (name: string): string =>
      JSON.stringify(pathToFileURL(fileURLToPath(new URL(name, import.meta.url))).href);
    const module = `
      import { stripe } from ${home("../dist/index.js")};
      import { createRequire } from "node:module";
      const Database = createRequire(${home("./replay.test.ts")})("better-sqlite3");
      export const payments = stripe({ db: new Database("app.db"), webhookSecrets: "${SECRET}", on: {} });
    `;
    writeFileSync(join(folder, "jobs.mjs"), module);
    writeFileSync(join(folder, "holdfast.toml"), 'store = "sqlite:app.db"\n\n[jobs]\nmodule = "jobs.mjs"\n');
    const { stdout } = await run(process.execPath, [bin, "replay", event.id], { cwd: folder });
    const { jobs } = await hf.list({ state: "pending" });
    expect(stdout.trim()).toBe(`${event.id}: job ${jobs[0]?.id} is enqueued`);
    const json = await run(process.execPath, [bin, "replay", event.id, "--json"], { cwd: folder });
    expect(JSON.parse(json.stdout)).toMatchObject({ eventId: event.id, result: "waiting" });
    const unknown = run(process.execPath, [bin, "replay", "evt_unknown"], { cwd: folder });
    await expect(unknown).rejects.toMatchObject({ code: 1, stderr: expect.stringMatching("evt_unknown") as string });
    await hf.close();
    db.close();
  });
});
