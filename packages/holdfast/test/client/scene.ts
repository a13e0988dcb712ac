import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { holdfast, job, type Holdfast, type HoldfastError, type HoldfastOptions, type Job, type State } from "holdfast";
import { fakeClock, type FakeClock } from "holdfast/testing";
import { expect, onTestFinished } from "vitest";
import { z } from "zod";

export const START = Date.UTC(2026, 0, 1);

/** A client on a database in memory, with a fake clock. Closed when the test ends. */
export async function open(options: HoldfastOptions = {}): Promise<{ hf: Holdfast; clock: FakeClock }> {
  const clock = (options.clock as FakeClock | undefined) ?? fakeClock(START);
  const hf = await holdfast({ store: "sqlite::memory:", clock, logger: false, random: () => 0.5, ...options });
  onTestFinished(() => hf.close());
  return { hf, clock };
}

/** The URL of a database file that is deleted when the test ends. */
export async function fileStore(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-client-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return `sqlite:${join(folder, "jobs.db")}`;
}

/** A job type that returns twice its input. */
export const double = job({
  type: "double",
  input: z.object({ n: z.number() }),
  run: ({ input }) => ({ twice: input.n * 2 }),
});

/** A job type without input. */
export const cleanup = job({ type: "cleanup", run: () => {} });

/** The error that the promise rejected with or the function threw. */
export async function errorOf(action: Promise<unknown> | (() => unknown)): Promise<unknown> {
  try {
    await (typeof action === "function" ? action() : action);
  } catch (error) {
    return error;
  }
  throw new Error("nothing was refused");
}

/** Expects a typed error with its code, whose message names the field. */
export async function expectRefusal(
  action: Promise<unknown> | (() => unknown),
  expected: { is: new (...args: never[]) => HoldfastError; code: string; field?: string; says?: RegExp },
): Promise<void> {
  const error = await errorOf(action);
  expect(error).toBeInstanceOf(expected.is);
  expect(error).toMatchObject({ code: expected.code, name: expected.is.name });
  if (expected.field !== undefined) {
    expect(error).toMatchObject({ field: expected.field });
    expect((error as Error).message.slice(expected.field.length)).toMatch(/^:? /);
  }
  if (expected.says !== undefined) expect((error as Error).message).toMatch(expected.says);
}

/** How many jobs the store counts, in any state. */
export async function jobCount(hf: Holdfast): Promise<number> {
  const { states } = await hf.stats();
  return Object.values(states).reduce((sum, count) => sum + count, 0);
}

/** The job, which must exist. */
export async function jobOf(hf: Holdfast, id: string): Promise<Job> {
  const found = await hf.get(id);
  if (found === null) throw new Error(`no job ${id}`);
  return found;
}

export async function stateOf(hf: Holdfast, id: string): Promise<State> {
  return (await jobOf(hf, id)).state;
}

/** The API without types, as plain JavaScript calls it. */
export function untyped(hf: Holdfast): {
  [Name in keyof Holdfast]: (...args: unknown[]) => Promise<unknown>;
} {
  return hf as never;
}
