import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type Sqlite from "better-sqlite3";
import { fakeClock } from "holdfast/testing";
import type pg from "pg";
import { expect, onTestFinished } from "vitest";
import type { PackDatabase } from "../../../holdfast/test/pack/scene.js";
import { everyone, newsScene } from "./news-scene.js";

const WORKER = join(import.meta.dirname, "../fixtures/newsletter-worker.mjs");
const MINUTE = 60_000;
const CONCURRENCY = 5;

/**
 * Sends a newsletter with three processes. The first is killed while it enqueues and sends, the second while it sends, and the third
 * ends the work. A mail is in flight only if the server has not accepted it: what happens to one that it has accepted, see the guide.
 */
export async function sendThroughCrashes(
  given: PackDatabase,
  { readers, stallAt, second }: { readers: number; stallAt: number; second: number },
): Promise<void> {
  const clock = fakeClock(Date.now() + 10 * MINUTE);
  const { hf, news, inbox, schedule, reached } = await newsScene(given, { readers, clock });
  const run = await schedule(new Date(Date.now() - MINUTE));
  const limit = { timeout: "2m" };
  const start = (settings: Record<string, string>): ChildProcess =>
    startWorker({ ...addressOf(given), SMTP_URL: inbox.url, READERS: String(readers), ...settings });

  inbox.hang({ after: 20 });
  const first = start({ AHEAD_MS: "0", STALL_AT: String(stallAt) });
  // One of its jobs enqueues the mails.
  await Promise.all([stalled(first), inbox.hung(CONCURRENCY - 1, limit)]);
  await kill(first);
  expect(await news.run(run.id)).toMatchObject({ status: "sending", recipients: null });

  inbox.recover();
  inbox.hang({ after: second });
  const next = start({ AHEAD_MS: String(2 * MINUTE) });
  await inbox.hung(CONCURRENCY, limit);
  await kill(next);
  expect(inbox.mails).toHaveLength(20 + second);

  inbox.recover();
  await hf.drain({ concurrency: 10 });
  expect(reached()).toEqual(everyone(readers));
  expect(await news.run(run.id)).toMatchObject({
    status: "sent",
    recipients: readers,
    deliveries: { queued: 0, sent: readers, failed: 0, skipped: 0 },
  });
}

function startWorker(settings: Record<string, string>): ChildProcess {
  const { PATH = "", HOME = "" } = process.env;
  const env = { PATH, HOME, CONCURRENCY: String(CONCURRENCY), ...settings };
  const child = spawn(process.execPath, [WORKER], { env, stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

async function stalled(child: ChildProcess): Promise<void> {
  if (child.stdout === null) throw new Error("the output is not read");
  for await (const line of createInterface({ input: child.stdout })) if (line === "stalled") return;
  throw new Error("the worker has ended");
}

async function kill(child: ChildProcess): Promise<void> {
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

function addressOf({ dialect, db }: PackDatabase): { DIALECT: string; ADDRESS: string } {
  const address = dialect === "sqlite" ? (db as Sqlite.Database).name : (db as pg.Pool).options.connectionString;
  return { DIALECT: dialect, ADDRESS: address ?? "" };
}
