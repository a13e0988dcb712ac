import { spawnSync } from "node:child_process";
import { holdfast, job, type HoldfastOptions, type Logger, type Telemetry } from "holdfast";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { z } from "zod";
import { errorOf } from "../client/scene.js";
import { closeDespiteReporter, scene } from "./scene.js";

const quick = job({ type: "quick", run: () => "done" });
const doomed = job({ type: "doomed", retry: { maxAttempts: 1 }, run: () => Promise.reject(new Error("no")) });

const fault = new Error("in a callback");
const raise = (): never => {
  throw fault;
};
/** An object with a `then`, like the promise of another library. */
// oxlint-disable-next-line unicorn/no-thenable -- this is tested
const thenable = (then: PropertyDescriptor): object => Object.defineProperties({}, { then });
/** Ways in which a callback misbehaves. */
const MISBEHAVING: Record<string, () => unknown> = {
  throws: raise,
  rejects: () => Promise.reject(fault),
  "rejects later": async () => {
    await new Promise((resolve) => setImmediate(resolve));
    throw fault;
  },
  "returns a thenable that rejects": () => thenable({ value: (_: unknown, no: (error: Error) => void) => no(fault) }),
  "returns a thenable that throws": () => thenable({ value: raise }),
  "returns an object whose then throws": () => thenable({ get: raise }),
  "never ends": () => new Promise(() => {}),
};
const WAYS = Object.entries(MISBEHAVING);

/** Unhandled rejections during the test. Each would have ended the process. */
function unhandled(): { settled(): Promise<unknown[]> } {
  const rejections: unknown[] = [];
  const record = (reason: unknown): void => void rejections.push(reason);
  process.on("unhandledRejection", record);
  onTestFinished(() => void process.off("unhandledRejection", record));
  return {
    async settled() {
      for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
      return rejections;
    },
  };
}

describe("a process", () => {
  it("survives a listener that rejects", () => {
    const program = `
      import { holdfast, job } from "holdfast";
      const doomed = job({ type: "doomed", retry: { maxAttempts: 1 }, run: () => { throw new Error("no"); } });
      const hf = await holdfast({ store: "sqlite::memory:", jobs: [doomed], logger: false });
      hf.on("dead", async () => { throw new Error("in a listener"); });
      await hf.enqueue(doomed);
      await hf.drain();
      await hf.enqueue(doomed);
      console.log("ran", await hf.drain());
      await hf.close();`;
    const { stdout, stderr, status } = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
      cwd: new URL(".", import.meta.url),
      encoding: "utf8",
    });
    expect({ stdout, stderr, status }).toEqual({ stdout: "ran 1\n", stderr: "", status: 0 });
  });
});

describe.each(WAYS)("a callback that %s", (way, misbehave) => {
  it("does no harm as a listener", async () => {
    const rejections = unhandled();
    const { hf, lines } = await scene({ jobs: [quick, doomed] });
    for (const name of ["enqueued", "claimed", "dead", "completed"] as const) hf.on(name, misbehave);
    const { id } = await hf.enqueue(quick);
    await hf.enqueue(doomed);
    expect(await hf.drain()).toBe(2);
    expect((await hf.get(id))?.state).toBe("completed");
    expect(await rejections.settled()).toEqual([]);
    const logged = lines.filter(({ message }) => message === "an event listener threw");
    expect(logged.length).toBe(way === "never ends" ? 0 : 6);
    expect(logged.every(({ fields }) => fields["error"] === fault)).toBe(true);
  });

  it("does no harm as a logger", async () => {
    const rejections = unhandled();
    const logger = { info: misbehave, warn: misbehave, error: misbehave } as Logger;
    const hf = await holdfast({ store: "sqlite::memory:", jobs: [quick, doomed], logger });
    onTestFinished(() => hf.close());
    const { id } = await hf.enqueue(doomed);
    expect(await hf.drain()).toBe(1);
    expect((await hf.get(id))?.state).toBe("dead");
    expect(await rejections.settled()).toEqual([]);
  });

  it("does no harm as a backoff function", async () => {
    const rejections = unhandled();
    const retried = job({
      type: "retried",
      retry: { maxAttempts: 2, backoff: misbehave as () => number },
      run: ({ job: { attempt } }) => {
        if (attempt === 1) throw new Error("once");
      },
    });
    const { hf, clock, lines } = await scene({ jobs: [retried] });
    const { id } = await hf.enqueue(retried);
    hf.work();
    await clock.advance("29s");
    expect((await hf.get(id))?.state).toBe("failed");
    // A promise that never settles is waited for, 10 s.
    await clock.advance("12s");
    expect((await hf.get(id))?.state).toBe("completed");
    expect(await rejections.settled()).toEqual([]);
    expect(lines.map(({ level, message }) => [level, message])).toContainEqual([
      "error",
      expect.stringMatching(/^the backoff function (?:failed|returned no valid delay); retrying in 30 s$/),
    ]);
  });

  it("does no harm as a random source", async () => {
    const rejections = unhandled();
    const failing = job({ type: "failing", run: () => Promise.reject(new Error("no")) });
    const { hf, clock, lines } = await scene({ jobs: [failing, quick], random: misbehave as () => number });
    const { id } = await hf.enqueue(failing);
    hf.work();
    await clock.advance("1s");
    expect(((await hf.get(id))?.dueAt?.getTime() ?? 0) - clock.now()).toBe(29_000);
    // Maintenance randomizes its interval, and must continue.
    await clock.advance("10m");
    expect(await rejections.settled()).toEqual([]);
    expect(lines.filter(({ message }) => message.startsWith("random returned no number"))).toHaveLength(1);
  });

  it.each(["enqueue", "run", "end", "inside", "attach"])("does no harm as telemetry's %s", async (part) => {
    const rejections = unhandled();
    const at = <Given>(name: string, well: Given): Given => (part === name ? (misbehave as Given) : well);
    const telemetry = {
      enqueue: at("enqueue", () => ({ carrier: null, end: at("end", () => {}) })),
      run: at("run", () => ({ inside: at("inside", (handler: () => unknown) => handler()), end: at("end", () => {}) })),
      attach: at("attach", () => at("end", () => {})),
    } as Telemetry;
    let runs = 0;
    const counted = job({ type: "counted", run: () => ++runs });
    const { hf } = await scene({ jobs: [counted], telemetry });
    const { id } = await hf.enqueue(counted);
    await hf.enqueueMany(counted, [undefined, undefined]);
    expect(await hf.drain()).toBe(3);
    expect([runs, (await hf.get(id))?.state]).toEqual([3, "completed"]);
    expect(await rejections.settled()).toEqual([]);
  });

  it("does no harm as a reporter", async () => {
    const rejections = unhandled();
    const { hf } = await scene({ jobs: [doomed], reporter: { report: misbehave } });
    const { id } = await hf.enqueue(doomed);
    await hf.drain();
    expect((await hf.get(id))?.state).toBe("dead");
    expect(await rejections.settled()).toEqual([]);
    if (way === "never ends") await closeDespiteReporter(hf);
  });

  it("fails only its call as onResult or onProgress", async () => {
    if (way === "never ends") return;
    const rejections = unhandled();
    const { hf } = await scene({ jobs: [quick] });
    expect(await errorOf(hf.enqueueMany(quick, [undefined, undefined], { onResult: misbehave }))).toBe(fault);
    expect(await errorOf(hf.cancel({ type: "quick" }, { onProgress: misbehave }))).toBe(fault);
    expect(await errorOf(hf.purge({ state: "cancelled", olderThan: 0 }, { onProgress: misbehave }))).toBe(fault);
    expect(await rejections.settled()).toEqual([]);
  });

  it("refuses its job as a schema, and fails its attempt", async () => {
    if (way === "never ends") return;
    const rejections = unhandled();
    let isBroken = false;
    const schema = z.object({ n: z.number() });
    const validate = ((value: unknown) =>
      isBroken ? misbehave() : schema["~standard"].validate(value)) as (typeof schema)["~standard"]["validate"];
    const checked = job({
      type: "checked",
      input: { "~standard": { ...schema["~standard"], validate } },
      retry: { maxAttempts: 1 },
      run: () => {},
    });
    const { hf } = await scene({ jobs: [checked] });
    const { id } = await hf.enqueue(checked, { n: 1 });
    isBroken = true;
    expect(await errorOf(hf.enqueue(checked, { n: 1 }))).toBe(fault);
    await hf.drain();
    expect(await hf.get(id)).toMatchObject({ state: "dead", error: { message: fault.message } });
    expect(await rejections.settled()).toEqual([]);
  });
});

describe("a handler", () => {
  it.each(WAYS)("that %s fails only its attempt", async (way, misbehave) => {
    if (way === "never ends") return;
    const rejections = unhandled();
    const bad = job({ type: "bad", retry: { maxAttempts: 1 }, run: misbehave });
    const { hf } = await scene({ jobs: [bad, quick] });
    const { id } = await hf.enqueue(bad);
    const after = await hf.enqueue(quick, {}, { priority: -1 });
    await hf.drain({ concurrency: 1 });
    expect([(await hf.get(id))?.error?.message, (await hf.get(after.id))?.state]).toEqual([fault.message, "completed"]);
    expect(await rejections.settled()).toEqual([]);
  });

  it("survives a schema that throws a revoked proxy", async () => {
    const rejections = unhandled();
    const odd = new Proxy({}, { get: raise, getPrototypeOf: raise, ownKeys: raise, has: raise });
    let isBroken = false;
    const schema = {
      "~standard": {
        version: 1 as const,
        vendor: "test",
        validate: (value: unknown) => {
          // oxlint-disable-next-line typescript/only-throw-error -- this is tested
          if (isBroken) throw odd;
          return { value };
        },
      },
    };
    const bad = job({ type: "bad", input: schema, retry: { maxAttempts: 1 }, run: () => {} });
    const { hf } = await scene({ jobs: [bad, quick] });
    const { id } = await hf.enqueue(bad, {});
    isBroken = true;
    await hf.drain();
    expect(await hf.get(id)).toMatchObject({
      state: "dead",
      error: { message: "the handler threw a value that cannot be shown" },
    });
    expect(await rejections.settled()).toEqual([]);
  });
});

describe("telemetry's inside", () => {
  const inside = (call: (handler: () => unknown) => unknown): HoldfastOptions["telemetry"] => ({
    enqueue: () => ({ carrier: null, end: () => {} }),
    run: () => ({ inside: call as <Output>(handler: () => Output) => Output, end: () => {} }),
  });

  it.each<[string, (handler: () => unknown) => unknown]>([
    ["does not call the handler", () => undefined],
    ["calls the handler twice", (handler) => [handler(), handler()]],
    ["returns something else", (handler) => (handler(), "else")],
    [
      "throws once the handler has begun",
      (handler) => {
        void handler();
        throw fault;
      },
    ],
    ["calls the handler later", async (handler) => (await Promise.resolve(), handler())],
  ])("that %s does not affect the job", async (_, call) => {
    const rejections = unhandled();
    let runs = 0;
    const counted = job({ type: "counted", run: async () => ({ runs: ++runs }) });
    const { hf } = await scene({ jobs: [counted], telemetry: inside(call) as Telemetry });
    const { id } = await hf.enqueue(counted);
    await hf.drain();
    expect([runs, (await hf.get(id))?.output]).toEqual([1, { runs: 1 }]);
    expect(await rejections.settled()).toEqual([]);
  });
});

describe("enqueueMany", () => {
  it("waits for an asynchronous onResult before reading more", async () => {
    const { hf } = await scene({ jobs: [quick] });
    const order: string[] = [];
    let open = 0;
    let most = 0;
    function* inputs(): Generator<undefined> {
      for (let n = 0; n < 2_000; n++) {
        if (n % 500 === 0) order.push(`read ${n}`);
        yield undefined;
      }
    }
    await hf.enqueueMany(quick, inputs(), {
      onResult: async (_result, index) => {
        most = Math.max(most, ++open);
        await Promise.resolve();
        open--;
        if (index % 500 === 499) order.push(`reported ${index}`);
      },
    });
    expect(most).toBe(1);
    // At most three chunks are in memory: one read, one written, one being reported.
    expect(order.indexOf("read 1500")).toBeGreaterThan(order.indexOf("reported 499"));
    expect(order.at(-1)).toBe("reported 1999");
  });

  it("refuses an asynchronous each", async () => {
    const rejections = unhandled();
    const { hf } = await scene({ jobs: [quick] });
    const each = (async () => Promise.reject(fault)) as unknown as () => { priority: number };
    const error = await errorOf(hf.enqueueMany(quick, [undefined], { each }));
    expect(error).toMatchObject({ code: "INVALID_OPTION", field: "each" });
    expect(await rejections.settled()).toEqual([]);
  });

  it("waits for an asynchronous onProgress before the next chunk", async () => {
    const { hf, store } = await scene({ jobs: [quick] });
    await hf.enqueueMany(quick, Array.from({ length: 450 }));
    const calls: number[] = [];
    await hf.cancel(
      { type: "quick" },
      {
        onProgress: async () => {
          const before = store.count("cancel");
          await new Promise((resolve) => setImmediate(resolve));
          calls.push(store.count("cancel") - before);
        },
      },
    );
    expect(calls).toEqual([0, 0, 0]);
  });
});

describe("a logger that fails", () => {
  it("is replaced by stderr, with the reason once", async () => {
    const written: string[] = [];
    const write = vi.spyOn(process.stderr, "write").mockImplementation((text) => written.push(String(text)) > 0);
    try {
      const logger = { info: () => {}, warn: () => {}, error: () => Promise.reject(fault) } as unknown as Logger;
      const hf = await holdfast({ store: "sqlite::memory:", jobs: [doomed], logger });
      for (let n = 0; n < 2; n++) await hf.enqueue(doomed);
      await hf.drain();
      await hf.close();
    } finally {
      write.mockRestore();
    }
    expect(written.filter((line) => line.startsWith("holdfast error: job is dead "))).toHaveLength(2);
    expect(written.filter((line) => line.includes("the logger failed"))).toHaveLength(1);
  });

  it("is refused if a function is missing", async () => {
    const half = { info: () => {} } as unknown as Logger;
    expect(await errorOf(holdfast({ store: "sqlite::memory:", logger: half }))).toMatchObject({ field: "logger" });
  });
});

describe("a listener", () => {
  it("is refused if it is not a function", async () => {
    const { hf } = await scene();
    expect(() => hf.on("dead", undefined as never)).toThrow("listener: undefined is not a function");
  });
});

describe("a clock", () => {
  it("is refused if its time is not a number", async () => {
    const clock = { now: () => Promise.resolve(1), monotonic: () => 0, after: () => ({ cancel() {} }) };
    const error = await errorOf(holdfast({ store: "sqlite::memory:", clock: clock as never }));
    expect(error).toMatchObject({ code: "INVALID_OPTION", field: "clock" });
  });
});
