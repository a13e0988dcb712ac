import { AsyncLocalStorage } from "node:async_hooks";
import { job, type Telemetry } from "holdfast";
import { describe, expect, it } from "vitest";
import { joinTelemetry } from "#src/engine/events/join-telemetry.js";
import { BROKEN, raise } from "./broken-telemetry.js";
import { recordingLogger, scene } from "../engine/scene.js";

const within = new AsyncLocalStorage<readonly string[]>();

/** Telemetry that records its calls under its name, and whose handlers know that they run inside it. */
function named(name: string, calls: string[], carrier: Record<string, string> | null = null): Telemetry {
  return {
    enqueue() {
      calls.push(`${name} enqueue`);
      return { carrier, end: () => void calls.push(`${name} enqueued`) };
    },
    run({ carrier: carried }) {
      calls.push(`${name} run ${JSON.stringify(carried)}`);
      return {
        inside: (handler) => within.run([...(within.getStore() ?? []), name], handler),
        end: ({ outcome }) => void calls.push(`${name} ${outcome}`),
      };
    },
    attach() {
      calls.push(`${name} attach`);
      return () => void calls.push(`${name} detach`);
    },
  };
}

const CARRYING: Telemetry = {
  enqueue: () => ({
    get carrier(): never {
      return raise();
    },
    end: () => {},
  }),
  run: () => ({ inside: (handler) => handler(), end: () => {} }),
};

/** Runs one job on a client with this telemetry. Returns how often its handler ran, and inside which telemetries. */
async function runOne(telemetry: Telemetry): Promise<{ ran: unknown[]; state: string | undefined }> {
  const ran: unknown[] = [];
  const look = job({ type: "look", run: async () => void ran.push(await Promise.resolve(within.getStore())) });
  const { hf } = await scene({ jobs: [look], telemetry });
  const { id } = await hf.enqueue(look);
  await hf.drain();
  const state = (await hf.get(id))?.state;
  await hf.close();
  return { ran, state };
}

describe("two joined telemetries", () => {
  it("both get every call, nested around the handler", async () => {
    const calls: string[] = [];
    const { logger, lines } = recordingLogger();
    const both = joinTelemetry(named("outer", calls, { a: "1" }), named("inner", calls, { b: "2" }), logger);
    expect(await runOne(both)).toEqual({ ran: [["outer", "inner"]], state: "completed" });
    const each = ["attach", "enqueue", "enqueued", 'run {"a":"1"}', "completed", "detach"];
    expect(calls).toEqual(each.flatMap((what) => [`outer ${what}`, `inner ${what}`]));
    expect(lines).toEqual([]);
  });

  it("uses the inner carrier if the outer has none", async () => {
    const calls: string[] = [];
    await runOne(joinTelemetry(named("outer", calls), named("inner", calls, { b: "2" }), recordingLogger().logger));
    expect(calls).toContain('outer run {"b":"2"}');
  });

  for (const [where, broken] of Object.entries({ ...BROKEN, "at its carrier": CARRYING })) {
    for (const place of ["outer", "inner"] as const) {
      it(`a throw ${where} as the ${place} is logged, without other effects`, async () => {
        const calls: string[] = [];
        const { logger, lines } = recordingLogger();
        const sound = named("sound", calls, { a: "1" });
        const both = place === "outer" ? joinTelemetry(broken, sound, logger) : joinTelemetry(sound, broken, logger);
        expect(await runOne(both)).toEqual({ ran: [["sound"]], state: "completed" });
        const each = ["attach", "enqueue", "enqueued", 'run {"a":"1"}', "completed", "detach"];
        expect(calls).toEqual(each.map((what) => `sound ${what}`));
        expect(new Set(lines.map(({ message }) => message))).toEqual(new Set(["telemetry threw"]));
      });
    }
  }

  it("rethrows a synchronous handler error, runs it once", async () => {
    let runs = 0;
    const bad = job({
      type: "bad",
      retry: { maxAttempts: 1 },
      run() {
        runs++;
        throw new Error("by the handler");
      },
    });
    const telemetry = joinTelemetry(named("outer", []), named("inner", []), recordingLogger().logger);
    const { hf } = await scene({ jobs: [bad], telemetry });
    const { id } = await hf.enqueue(bad);
    await hf.drain();
    expect([runs, (await hf.get(id))?.error?.message]).toEqual([1, "by the handler"]);
  });
});
