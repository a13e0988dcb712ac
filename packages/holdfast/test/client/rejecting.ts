import { holdfast, job, type Holdfast, type Store } from "holdfast";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";

const double = job({ type: "double", input: z.object({ n: z.number() }), run: () => {} });
const NOTHING_FITS: unknown[][] = [
  [],
  [null],
  [undefined, null],
  [5, 5, 5],
  [{}, {}, {}],
  [Symbol("odd")],
  ["", "", null],
];
// Not asynchronous calls; and after `close` every call is refused.
const LEFT_OUT = ["constructor", "forUser", "on", "work", "follow", "close"];

/** Calls of the client reject and never throw, so that callers need not handle both. */
export function rejectingCases(name: string, open: () => Promise<string | Store>): void {
  async function client(): Promise<Holdfast> {
    const hf = await holdfast({ store: await open(), jobs: [double], logger: false });
    onTestFinished(() => hf.close());
    return hf;
  }

  describe(`${name}: every call rejects and none throws`, () => {
    it("with any argument", async () => {
      const hf = await client();
      const parts = { hf, schedules: hf.schedules, audit: hf.audit, tokens: hf.tokens, user: hf.forUser("ada") };
      let rejected = 0;
      for (const [part, object] of Object.entries(parts)) {
        for (const method of methodsOf(object)) {
          for (const args of NOTHING_FITS) {
            rejected += await rejection(`${part}.${method}`, () => callOf(object, method)(...args));
          }
        }
      }
      expect(rejected).toBeGreaterThan(100);
    });

    it("after close", async () => {
      const hf = await client();
      const user = hf.forUser("ada");
      await hf.close();
      for (const object of [hf, hf.schedules, hf.audit, hf.tokens, user]) {
        for (const method of methodsOf(object)) await rejection(method, () => callOf(object, method)());
      }
    });
  });
}

/** The same for calls inside the caller's transaction, on a store with an asynchronous driver. */
export function rejectingInTransactionCases(
  name: string,
  open: () => Promise<{ store: string | Store; tx: unknown }>,
): void {
  it(`${name}: calls inside a transaction reject bad input and none throws`, async () => {
    const { store, tx } = await open();
    const hf = await holdfast({ store, jobs: [double], logger: false });
    onTestFinished(() => hf.close());
    const bad = { n: "one" as never };
    const calls: (() => Promise<unknown>)[] = [
      () => hf.enqueue(double, bad, { tx }),
      () => hf.enqueue(double, { n: 1 }, { tx, priority: 1_000 }),
      () => hf.enqueue({} as never, {}, { tx }),
      () => hf.enqueue(double, { n: 1 }, { tx: "no transaction" }),
      () => hf.forUser("ada").enqueue(double, bad, { tx }),
      () => hf.enqueueNamed("double", bad, { tx }),
      () => hf.enqueueNamed("", {}, { tx }),
      () => hf.enqueueMany(double, null as never, { tx }),
      () => hf.enqueueMany(double, stream(), { tx }),
      () => hf.enqueueMany(double, [{ n: 1 }], { tx, each: () => ({ dealy: 1 }) as never }),
    ];
    for (const call of calls) expect(await rejection(String(call), call)).toBe(1);

    await hf.enqueue(double, { n: 1 });
    const [lease] = await hf.claim();
    expect(await rejection("completeIn", () => lease?.completeIn(tx, 5n))).toBe(1);
    await hf.close();
    for (const call of calls) expect(await rejection(String(call), call)).toBe(1);
  });
}

async function* stream(): AsyncGenerator<{ n: number }> {
  yield { n: 1 };
}

function methodsOf(object: object): string[] {
  const prototype: unknown = Object.getPrototypeOf(object);
  const names = Object.getOwnPropertyNames(prototype === Object.prototype ? object : prototype);
  return names.filter((name) => !LEFT_OUT.includes(name) && typeof callOf(object, name) === "function");
}

function callOf(object: object, method: string): (...args: unknown[]) => unknown {
  const call = (object as Record<string, unknown>)[method];
  return typeof call === "function" ? (call.bind(object) as () => unknown) : (call as never);
}

/** 1 if the call rejected. Fails the test if it threw or is not asynchronous. */
async function rejection(name: string, call: () => unknown): Promise<0 | 1> {
  let promise: unknown;
  try {
    promise = call();
  } catch (error) {
    expect.fail(`${name} threw ${String(error)}`);
  }
  if (!(promise instanceof Promise)) expect.fail(`${name} gave no promise`);
  return promise.then(
    () => 0,
    () => 1,
  );
}
