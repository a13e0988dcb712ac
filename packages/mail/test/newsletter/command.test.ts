import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type Sqlite from "better-sqlite3";
import type pg from "pg";
import { beforeEach, expect, it, onTestFinished } from "vitest";
import { describeDatabases, type PackDatabase } from "../../../holdfast/test/pack/scene.js";
import { EIGHT, newsScene } from "./news-scene.js";

const BIN = join(import.meta.dirname, "../../dist/bin.js");
const MODULES = join(import.meta.dirname, "../../../../node_modules");
const SLOW = { timeout: 90_000 };

/** A folder with a configuration and a jobs module. Returns a function that runs the command in it. */
function workspace(given: PackDatabase): (...args: string[]) => Promise<{ code: number; out: string; error: string }> {
  const cwd = mkdtempSync(join(tmpdir(), "holdfast-mail-test-"));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
  symlinkSync(MODULES, join(cwd, "node_modules"));
  const isSqlite = given.dialect === "sqlite";
  const address = isSqlite
    ? (given.db as Sqlite.Database).name
    : ((given.db as pg.Pool).options.connectionString ?? "");
  const store = isSqlite ? `sqlite:${address}` : address;
  writeFileSync(join(cwd, "holdfast.toml"), `store = ${JSON.stringify(store)}\n\n[jobs]\nmodule = "jobs.ts"\n`);
  writeFileSync(
    join(cwd, "empty.ts"),
    'import { job } from "holdfast";\nexport const noop = job({ type: "noop", run() {} });\n',
  );
  writeFileSync(
    join(cwd, "jobs.ts"),
    `
import { mail, newsletter } from "@holdfast/mail";
import { log } from "@holdfast/mail/log";
import ${isSqlite ? "Sqlite" : "pg"} from "${isSqlite ? "better-sqlite3" : "pg"}";
const db = ${isSqlite ? "new Sqlite" : "new pg.Pool"}(${JSON.stringify(isSqlite ? address : { connectionString: address })});
export const post = mail({ transport: log(), from: "hello@club.example" });
export const news = newsletter({ mail: post, db, subscribers: () => [] });
`,
  );
  return async (...args) => {
    const { PATH = "", HOME = "" } = process.env;
    const child = spawn(process.execPath, [BIN, ...args], {
      cwd,
      env: { PATH, HOME },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const [out, error, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, "close") as Promise<[number]>,
    ]);
    return { code, out, error };
  };
}

describeDatabases((open) => {
  let given: PackDatabase;
  beforeEach(async () => (given = await open()));

  it("E-06 the command dispatches a due run whose job was deleted", SLOW, async () => {
    const { hf, news, schedule } = await newsScene(given);
    const run = await schedule(new Date(EIGHT.getTime() - 365 * 86_400_000));
    const waiting = await schedule(new Date("2999-01-01T08:00:00Z"));
    await hf.remove([run.jobId, waiting.jobId]);
    const command = workspace(given);

    const dry = await command("newsletter", "dispatch-due", "--dry-run");
    expect(dry).toMatchObject({ code: 0, error: "" });
    expect(dry.out).toContain(`would enqueue send run ${run.id}, due since 2025-05-01T08:00:00.000Z`);
    expect((await hf.list()).jobs).toEqual([]);

    const { code, out } = await command("newsletter", "dispatch-due", "--json");
    const { jobs } = await hf.list();
    expect([code, JSON.parse(out)]).toMatchObject([0, { dryRun: false, runs: [{ id: run.id, jobId: jobs[0]?.id }] }]);
    expect(jobs).toMatchObject([{ type: "newsletter.send", input: { sendRunId: run.id } }]);
    expect((await news.run(run.id))?.jobId).toBe(jobs[0]?.id);

    expect((await command("newsletter", "dispatch-due")).out).toBe("no due send run is without a job\n");
  });

  it("E-06 the command says what a module must export", SLOW, async () => {
    const { code, error } = await workspace(given)("newsletter", "dispatch-due", "--module", "empty.ts");
    expect(code).not.toBe(0);
    expect(error).toContain("exports no newsletter");
    expect(error).toContain("export const news = newsletter({ … })");
  });
});
