import { setImmediate as turn } from "node:timers/promises";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { engineOf } from "#src/engine/client/holdfast.js";
import { adminScene, adminStores, never } from "./scene.js";

const STORES = adminStores();
const SECONDS = 20;
/** What the test itself calls. */
const WRITES = new Set(["insert", "close", "listen"]);

/** Counts the calls of a store, and knows how many have not ended. */
function counted(store: object): { calls: Map<string, number>; settled: () => Promise<void> } {
  const calls = new Map<string, number>();
  const open = new Set<Promise<unknown>>();
  const names = new Set<string>();
  for (let from = store; from !== Object.prototype; from = Object.getPrototypeOf(from) as object) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(from))) {
      if (typeof value === "function" && name !== "constructor" && !WRITES.has(name)) names.add(name);
    }
  }
  for (const name of names) {
    const call = (store as Record<string, (...given: unknown[]) => unknown>)[name];
    const counting = (...given: unknown[]): unknown => {
      const result = call?.apply(store, given);
      if (!(result instanceof Promise)) return result;
      calls.set(name, (calls.get(name) ?? 0) + 1);
      const ended = result.catch(() => {}).finally(() => open.delete(ended));
      open.add(ended);
      return result;
    };
    Object.assign(store, { [name]: counting });
  }
  const settled = async (): Promise<void> => {
    // What follows a call may call again.
    for (let idle = 0; idle < 3; idle++) {
      if (open.size > 0) idle = 0;
      await Promise.all(open);
      await turn();
    }
  };
  return { calls, settled };
}

/** An open event stream on a fake clock: the calls of its store in some seconds. */
async function callsOf(url: string, jobsPerSecond: number): Promise<ReadonlyMap<string, number>> {
  const ticks: (() => void)[] = [];
  const { setInterval } = globalThis;
  const spy = vi.spyOn(globalThis, "setInterval").mockImplementation((run: () => void, ms?: number) => {
    if (ms !== 1_000) return setInterval(run, ms);
    ticks.push(run);
    return setInterval(() => {}, 2 ** 30);
  });
  onTestFinished(() => spy.mockRestore());
  const clock = fakeClock();
  const { hf, api, token } = await adminScene(url, {}, { clock });
  const headers = { authorization: `Bearer ${await token("viewer")}` };
  const { calls, settled } = counted(engineOf(hf).store);
  const { body } = await api.fetch(new Request("http://127.0.0.1/api/admin/events", { headers }));
  const reader = body?.getReader();
  onTestFinished(() => reader?.cancel());
  void (async () => {
    while ((await reader?.read())?.done === false);
  })();
  await vi.waitUntil(() => calls.has("stats") && calls.has("transitions"));
  await settled();
  calls.clear();
  for (let second = 0; second < SECONDS; second++) {
    for (let tenth = 0; tenth < 10; tenth++) {
      if (tenth < jobsPerSecond) await hf.enqueue(never, {}, { delay: "1h" });
      await clock.advance("100ms");
      await settled();
    }
    for (const tick of ticks) tick();
    await settled();
  }
  return calls;
}

const sum = (calls: ReadonlyMap<string, number>): number => [...calls.values()].reduce((all, each) => all + each, 0);

describe.each(STORES)("an open event stream on %s", (_name, store) => {
  it.each([0, 10])("costs at most two calls a second with %i jobs a second", async (jobsPerSecond) => {
    const calls = await callsOf(store(), jobsPerSecond);
    expect(sum(calls)).toBeLessThanOrEqual(2 * SECONDS);
    // It was open all the time.
    expect(calls.get("stats")).toBeGreaterThanOrEqual(SECONDS / 5 - 1);
    expect(calls.get("transitions")).toBeGreaterThanOrEqual(SECONDS / 2 - 1);
    expect(calls.get("transitions")).toBeLessThanOrEqual(jobsPerSecond === 0 ? SECONDS + 1 : SECONDS / 2 + 1);
  });
});
