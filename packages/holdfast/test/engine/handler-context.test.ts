import { job, type Lease, type RunContext } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { scene } from "./scene.js";

/** The fields of a lease. */
type Fields = { [Key in keyof Lease]: Lease[Key] };
type Context = RunContext<Record<string, never>>;
const FIELDS = [
  "completeIn",
  "hf",
  "idempotencyKey",
  "input",
  "job",
  "log",
  "progress",
  "signal",
  "sleep",
  "spawn",
  "spawnAll",
  "step",
  "waitFor",
];

/** Runs a job with this handler and returns its record. */
async function ran<Output>(handler: (context: Context) => Output): Promise<{ output: unknown; log: string[] }> {
  const type = job({ type: "t", retry: { maxAttempts: 1 }, run: handler });
  const { hf, job: read } = await scene({ jobs: [type] });
  const { id } = await hf.enqueue(type);
  await hf.drain();
  const { output, log, error } = await read(id);
  if (error !== null) throw new Error(error.message);
  return { output, log: log.map(({ line }) => line) };
}

describe("the context of a handler", () => {
  it("can be spread, with all fields", async () => {
    const inner = ({ job: of, idempotencyKey, signal, input, db }: Context & { db: string }): unknown => ({
      of: of.type,
      isJobId: idempotencyKey === of.id,
      aborted: signal.aborted,
      input,
      db,
    });
    const { output } = await ran((context) => inner({ ...context, db: "mine" }));
    expect(output).toEqual({ of: "t", isJobId: true, aborted: false, input: {}, db: "mine" });
  });

  it("has no other fields, all of them own", async () => {
    const { output } = await ran((context) => ({
      keys: Object.keys(context).toSorted(),
      spread: Object.keys({ ...context }).toSorted(),
      assigned: Object.keys(Object.assign({}, context)).toSorted(),
      symbols: Object.getOwnPropertySymbols(context).length,
      lease: "lease" in context || "type" in context,
    }));
    expect(output).toEqual({ keys: FIELDS, spread: FIELDS, assigned: FIELDS, symbols: 0, lease: false });
  });

  it("has functions that need no `this`", async () => {
    const { log } = await ran(({ log: write, progress }) => {
      write("taken apart");
      progress(0.5, "half");
      const copy = { log: write };
      copy.log("and put elsewhere");
    });
    expect(log).toEqual(["taken apart", "and put elsewhere"]);
  });

  it("can be wrapped by proxy, descriptors and Object.create", async () => {
    const { output } = await ran((context) => {
      const wrapped = [
        new Proxy(context, {}),
        new Proxy(context, { get: (target, key, receiver) => Reflect.get(target, key, receiver) as unknown }),
        Object.defineProperties({ db: 1 }, Object.getOwnPropertyDescriptors(context)) as unknown as Context,
        Object.create(context) as Context,
      ];
      return wrapped.map(({ job: of, signal }) => of === context.job && signal === context.signal);
    });
    expect(output).toEqual([true, true, true, true]);
  });

  it("has fields that can be replaced", async () => {
    const { output } = await ran((context) => {
      const signal = AbortSignal.timeout(60_000);
      Object.assign(context, { signal, job: { ...context.job, type: "mine" } });
      return [context.signal === signal, context.job.type, Object.keys(context).toSorted()];
    });
    expect(output).toEqual([true, "mine", FIELDS]);
  });

  it("aborts the signal of a copy", async () => {
    const reasons: string[] = [];
    const type = job({
      type: "t",
      run: (context) => {
        const copies = [{ ...context }, Object.create(context) as Context];
        for (const { signal } of copies) {
          signal.addEventListener("abort", () => reasons.push((signal.reason as { code: string }).code));
        }
        const { signal } = copies[0] as Context;
        return new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))));
      },
    });
    const { hf, clock } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    hf.work();
    await clock.advance("1s");
    await hf.cancel(id);
    await clock.advance("1s");
    expect(reasons).toEqual(["JOB_CANCELLED", "JOB_CANCELLED"]);
    expect((await hf.get(id))?.state).toBe("cancelled");
  });

  it("has a job with own fields", async () => {
    const { output } = await ran(({ job: of }) => ({ keys: Object.keys({ ...of }).toSorted(), fence: of.fence }));
    const keys = [
      "attempt",
      "createdAt",
      "fence",
      "id",
      "maxAttempts",
      "parent",
      "priority",
      "queue",
      "runAt",
      "schedule",
    ];
    expect(output).toEqual({ keys: [...keys, "tags", "type", "user"], fence: 1 });
  });
});

describe("a lease", () => {
  it("can be spread and destructured", async () => {
    const type = job({ type: "t", input: z.object({ n: z.number() }), run: () => {} });
    const { hf, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type, { n: 1 });
    const [lease] = await hf.claim();
    const { input, carrier, start, complete, ...rest } = { ...(lease as object as Fields) };
    expect([input, carrier, rest.id, rest.fence]).toEqual([{ n: 1 }, null, id, 1]);
    expect(await start()).toEqual({ cancelRequested: false });
    await complete({ done: true });
    expect(await read(id)).toMatchObject({ state: "completed", output: { done: true } });
    const functions = ["cancel", "complete", "completeIn", "extend", "fail", "release", "start"];
    const fields = ["attempt", "carrier", "fence", "id", "input", "maxAttempts", "queue", "type", "user"];
    expect(Object.keys(lease as Lease).toSorted()).toEqual([...functions, ...fields].toSorted());
  });
});

describe("the job that telemetry receives", () => {
  it("has a redacted input", async () => {
    const jobs: object[] = [];
    const type = job({ type: "t", input: z.object({ password: z.string() }), run: () => {} });
    const { hf } = await scene({
      jobs: [type],
      redact: ["**.password"],
      telemetry: {
        enqueue: () => ({ carrier: null, end: () => {} }),
        run: ({ job: of }) => {
          jobs.push(of);
          return { inside: (handler) => handler(), end: () => {} };
        },
      },
    });
    await hf.enqueue(type, { password: "hunter2" });
    await hf.drain();
    expect(JSON.stringify(jobs)).not.toContain("hunter2");
    expect(jobs).toHaveLength(1);
  });
});
