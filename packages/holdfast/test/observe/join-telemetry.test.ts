import { AsyncLocalStorage } from "node:async_hooks";
import { job, type Telemetry } from "holdfast";
import { describe, expect, it } from "vitest";
import { joinTelemetry } from "#src/engine/events/join-telemetry.js";
import { BROKEN, raise } from "./broken-telemetry.js";
import { recordingLogger, scene } from "../engine/scene.js";

const within = new AsyncLocalStorage<readonly string[]>();

/** Telemetry that keeps what it hears under its name, and whose handlers know that they are within it. */
function named(name: string, heard: string[], carrier: Record<string, string> | null = null): Telemetry {
  return {
    enqueue() {
      heard.push(`${name} enqueue`);
      return { carrier, end: () => void heard.push(`${name} enqueued`) };
    },
    run({ carrier: carried }) {
      heard.push(`${name} run ${JSON.stringify(carried)}`);
      return {
        inside: (handler) => within.run([...(within.getStore() ?? []), name], handler),
        end: ({ outcome }) => void heard.push(`${name} ${outcome}`),
      };
    },
    attach() {
      heard.push(`${name} attach`);
      return () => void heard.push(`${name} detach`);
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

/** Runs one job on a client with this telemetry; answers how often its handler ran, and within what. */
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

describe("two telemetries as one", () => {
  it("both hear of everything, and the handler is within the outer and then the inner", async () => {
    const heard: string[] = [];
    const { logger, lines } = recordingLogger();
    const both = joinTelemetry(named("outer", heard, { a: "1" }), named("inner", heard, { b: "2" }), logger);
    expect(await runOne(both)).toEqual({ ran: [["outer", "inner"]], state: "completed" });
    const each = ["attach", "enqueue", "enqueued", 'run {"a":"1"}', "completed", "detach"];
    expect(heard).toEqual(each.flatMap((what) => [`outer ${what}`, `inner ${what}`]));
    expect(lines).toEqual([]);
  });

  it("jobs carry what the inner gives if the outer gives nothing", async () => {
    const heard: string[] = [];
    await runOne(joinTelemetry(named("outer", heard), named("inner", heard, { b: "2" }), recordingLogger().logger));
    expect(heard).toContain('outer run {"b":"2"}');
  });

  for (const [where, broken] of Object.entries({ ...BROKEN, "at its carrier": CARRYING })) {
    for (const place of ["outer", "inner"] as const) {
      it(`one that throws ${where} as the ${place} is logged, and takes nothing from the other or the job`, async () => {
        const heard: string[] = [];
        const { logger, lines } = recordingLogger();
        const sound = named("sound", heard, { a: "1" });
        const both = place === "outer" ? joinTelemetry(broken, sound, logger) : joinTelemetry(sound, broken, logger);
        expect(await runOne(both)).toEqual({ ran: [["sound"]], state: "completed" });
        const each = ["attach", "enqueue", "enqueued", 'run {"a":"1"}', "completed", "detach"];
        expect(heard).toEqual(each.map((what) => `sound ${what}`));
        expect(new Set(lines.map(({ message }) => message))).toEqual(new Set(["telemetry threw"]));
      });
    }
  }

  it("what a handler throws at once is its own, and it runs once", async () => {
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
