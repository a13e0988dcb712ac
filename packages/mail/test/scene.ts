import { holdfast, type Holdfast, type HoldfastOptions, type Job, type Logger } from "holdfast";
import { postgres } from "holdfast/postgres";
import { fakeClock, type FakeClock } from "holdfast/testing";
import { onTestFinished } from "vitest";
import { smtpInbox, type SmtpInbox } from "@holdfast/mail/testing";
import type { PackDatabase } from "../../holdfast/test/pack/scene.js";

export interface LogLine {
  level: "info" | "warn" | "error";
  message: string;
  fields: Record<string, unknown>;
}

export function recordingLogger(): { logger: Logger; lines: LogLine[] } {
  const lines: LogLine[] = [];
  const at =
    (level: LogLine["level"]) =>
    (fields: object, message: string): void =>
      void lines.push({ level, message, fields: fields as Record<string, unknown> });
  return { logger: { info: at("info"), warn: at("warn"), error: at("error") }, lines };
}

export interface Client {
  hf: Holdfast;
  clock: FakeClock;
  lines: LogLine[];
  /** The job, which must exist. */
  job: (id: string) => Promise<Job>;
}

/** A client on a database, with a fake clock. Closed after the test. */
export async function openClient(
  given: PackDatabase,
  options: Omit<HoldfastOptions, "store" | "clock" | "logger">,
  clock: FakeClock = fakeClock(),
): Promise<Client> {
  const { logger, lines } = recordingLogger();
  const store = given.dialect === "postgres" ? postgres({ pool: given.db as never, clock }) : given.store();
  const hf = await holdfast({ ...options, store, clock, logger });
  onTestFinished(() => hf.close());
  const job = async (id: string): Promise<Job> => {
    const found = await hf.get(id);
    if (found === null) throw new Error(`there is no job ${id}`);
    return found;
  };
  return { hf, clock, lines, job };
}

/** A mail server, closed after the test. */
export async function openInbox(): Promise<SmtpInbox> {
  const inbox = await smtpInbox();
  onTestFinished(() => inbox.close());
  return inbox;
}

export interface Deferred<Value = void> {
  promise: Promise<Value>;
  resolve: (value: Value) => void;
}

/** A promise that a test resolves. */
export function deferred<Value = void>(): Deferred<Value> {
  let resolve: (value: Value) => void = () => {};
  const promise = new Promise<Value>((done) => (resolve = done));
  return { promise, resolve };
}
