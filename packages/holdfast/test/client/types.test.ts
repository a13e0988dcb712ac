import {
  holdfast,
  job,
  type AbortReason,
  type EnqueueManyResult,
  type EnqueueResult,
  type EnqueueOptions,
  type InputCondition,
  type Job,
  type JobId,
  type JobOutput,
  type JobType,
  type NoInput,
  type RunContext,
  type UserJobs,
} from "holdfast";
import { expectEnqueued } from "holdfast/testing";
import * as v from "valibot";
import { describe, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { cleanup, open } from "./scene.js";

// Checked by the compiler: each @ts-expect-error fails the build if the line below it compiles.

const welcome = job({
  type: "welcome",
  input: z.object({ to: z.string(), copies: z.number().optional() }),
  run: async ({ input }) => Promise.resolve({ messageId: input.to.length }),
});
const remind = job({
  type: "remind",
  input: z.object({ at: z.iso.datetime().transform((text) => new Date(text)), times: z.number().default(1) }),
  run({ input }) {
    expectTypeOf(input).toEqualTypeOf<{ at: Date; times: number }>();
    return input.times;
  },
});
const convert = job({
  type: "convert",
  input: v.object({ file: v.string(), width: v.optional(v.number(), 100) }),
  run({ input }) {
    expectTypeOf(input).toEqualTypeOf<{ file: string; width: number }>();
    return [input.file];
  },
});

/** Never called, only compiled. */
const neverRun = (_body: () => unknown): void => {};

describe("types from definition to result", () => {
  it("a calendar scope has a unit and an optional zone", () => {
    expectTypeOf<{ key: string; scope: { calendar: "day" } }>().toExtend<EnqueueOptions["unique"]>();
    expectTypeOf<{ key: string; scope: { calendar: "month"; zone: string } }>().toExtend<EnqueueOptions["unique"]>();
    expectTypeOf<{ key: string; scope: { calendar: "fortnight" } }>().not.toExtend<EnqueueOptions["unique"]>();
    expectTypeOf<{ key: string; scope: { zone: string } }>().not.toExtend<EnqueueOptions["unique"]>();
  });

  it("a job type has input and output types", () => {
    expectTypeOf(welcome).toEqualTypeOf<JobType<{ to: string; copies?: number | undefined }, { messageId: number }>>();
    expectTypeOf(remind).toEqualTypeOf<JobType<{ at: string; times?: number | undefined }, number>>();
    expectTypeOf(convert).toEqualTypeOf<JobType<{ file: string; width?: number | undefined }, string[]>>();
    expectTypeOf(cleanup).toEqualTypeOf<JobType<NoInput, void>>();
  });

  it("enqueue accepts the schema's input, not its output", () => {
    neverRun(async () => {
      const { hf } = await open();
      expectTypeOf(hf.enqueue(welcome, { to: "ada" })).toEqualTypeOf<Promise<EnqueueResult<{ messageId: number }>>>();
      await hf.enqueue(remind, { at: "2026-01-01T00:00:00Z" });
      await hf.enqueue(convert, { file: "a.png" });
      // @ts-expect-error the input is a string; the handler receives the Date
      await hf.enqueue(remind, { at: new Date() });
      // @ts-expect-error a wrong type
      await hf.enqueue(welcome, { to: 5 });
      // @ts-expect-error a missing property
      await hf.enqueue(welcome, {});
      // @ts-expect-error an excess property
      await hf.enqueue(welcome, { to: "ada", cc: "bob" });
      // @ts-expect-error no input
      await hf.enqueue(welcome);
      // @ts-expect-error an unknown value
      await hf.enqueue(welcome, JSON.parse("{}") as unknown);
      // @ts-expect-error a wider type
      await hf.enqueue(welcome, {} as { to?: string });
      // @ts-expect-error valibot is as strict
      await hf.enqueue(convert, { file: "a.png", width: "wide" });
      // @ts-expect-error a name is not a job type
      await hf.enqueue("welcome", { to: "ada" });
    });
  });

  it("a job without input needs none", () => {
    neverRun(async () => {
      const { hf } = await open();
      const counting = job({ type: "counting", run: () => 5 });
      for (const type of [cleanup, counting]) await hf.enqueue(type);
      await hf.enqueue(cleanup);
      await hf.enqueue(cleanup, undefined, { delay: "5m" });
      await hf.enqueue(cleanup, {}, { delay: "5m" });
      // @ts-expect-error the job has no input
      await hf.enqueue(cleanup, { to: "ada" });
    });
  });

  it("enqueueMany accepts iterables of the input", () => {
    neverRun(async () => {
      const { hf } = await open();
      async function* stream(): AsyncGenerator<{ to: string }> {
        yield await Promise.resolve({ to: "ada" });
      }
      await hf.enqueueMany(welcome, stream(), { each: ({ to }, index) => ({ unique: `${to}:${index}` }) });
      await hf.enqueueMany(welcome, new Set([{ to: "ada" }]));
      // @ts-expect-error a wrong input among them
      await hf.enqueueMany(welcome, [{ to: "ada" }, { to: 5 }]);
      // @ts-expect-error one id for several jobs
      await hf.enqueueMany(welcome, [{ to: "ada" }], { id: "x" });
    });
  });

  it("misspelt and impossible options do not compile", () => {
    neverRun(async () => {
      const { hf } = await open();
      // @ts-expect-error dealy
      await hf.enqueue(welcome, { to: "ada" }, { dealy: "5m" });
      // @ts-expect-error no such scope
      await hf.enqueue(welcome, { to: "ada" }, { unique: { key: "k", scope: "week" } });
      // @ts-expect-error no such state
      await hf.list({ state: "queued" });
      // @ts-expect-error concurency
      hf.work({ concurency: 2 });
      // @ts-expect-error jobs wait and are not purged
      await hf.purge({ state: "pending", olderThan: "1d" });
      // @ts-expect-error job
      await holdfast({ job: [welcome] });
      // @ts-expect-error timout
      job({ type: "x", timout: "1m", run: () => {} });
      // @ts-expect-error no run
      job({ type: "x" });
      // @ts-expect-error no such event
      hf.on("complete", () => {});
    });
  });

  it("result has the handler's output type when the type is given", () => {
    neverRun(async () => {
      const { hf } = await open();
      expectTypeOf(await hf.result(welcome, "id")).toEqualTypeOf<{ messageId: number }>();
      expectTypeOf(await hf.result(remind, "id", { timeout: "1m" })).toEqualTypeOf<number>();
      expectTypeOf(await hf.result("id")).toEqualTypeOf<unknown>();
      expectTypeOf(await hf.forUser("ada").result(convert, "id")).toEqualTypeOf<string[]>();
    });
  });

  it("an id from enqueue types its result", () => {
    neverRun(async () => {
      const { hf } = await open();
      const ada = hf.forUser("ada");
      const { id } = await hf.enqueue(welcome, { to: "ada" });
      expectTypeOf(id).toEqualTypeOf<JobId<{ messageId: number }>>();
      expectTypeOf(id).toExtend<string>();
      expectTypeOf(await hf.result(id)).toEqualTypeOf<{ messageId: number }>();
      expectTypeOf(await ada.result(id, { timeout: "1m" })).toEqualTypeOf<{ messageId: number }>();
      expectTypeOf(await hf.result((await ada.enqueue(remind, { at: "2026" })).id)).toEqualTypeOf<number>();
      const inTransaction = await hf.enqueue(convert, { file: "a" }, { tx: {} });
      expectTypeOf(await hf.result(inTransaction.id)).toEqualTypeOf<string[]>();
      const asynchronous = job({ type: "asynchronous", run: async () => Promise.resolve(5) });
      expectTypeOf(await hf.result((await hf.enqueue(asynchronous)).id)).toEqualTypeOf<number>();
    });
  });

  it("an output has the type of its JSON", () => {
    class Money {
      readonly cents = 5;
      format(): string {
        return `${this.cents}`;
      }
    }
    const report = job({
      type: "report",
      run: () => ({
        at: new Date(),
        price: new Money(),
        rows: [new Date()] as const,
        note: undefined as string | undefined,
      }),
    });
    const maybe = job({ type: "maybe", run: (): number | undefined => undefined });
    expectTypeOf<JobOutput<typeof report>>().toEqualTypeOf<{
      at: string;
      price: { readonly cents: 5 };
      rows: readonly [string];
      note: string | undefined;
    }>();
    expectTypeOf<JobOutput<typeof cleanup>>().toEqualTypeOf<Record<string, never>>();
    expectTypeOf<JobOutput<typeof maybe>>().toEqualTypeOf<number | Record<string, never>>();
    expectTypeOf<JobOutput<JobType<NoInput, bigint>>>().toEqualTypeOf<never>();
    // oxlint-disable-next-line no-explicit-any -- a handler may return any
    expectTypeOf<JobOutput<JobType<NoInput, any>>>().toBeAny();
    neverRun(async () => {
      const { hf } = await open();
      const { id } = await hf.enqueue(report);
      expectTypeOf((await hf.result(id)).at).toEqualTypeOf<string>();
      expectTypeOf((await hf.result(report, "id")).at).toEqualTypeOf<string>();
    });
  });

  it("get and rerun keep the type of the id", () => {
    neverRun(async () => {
      const { hf } = await open();
      const { id } = await hf.enqueue(welcome, { to: "ada" });
      expectTypeOf(await hf.get(id)).toEqualTypeOf<Job<unknown, { messageId: number }> | null>();
      expectTypeOf(await hf.forUser("ada").get(id)).toEqualTypeOf<Job<unknown, { messageId: number }> | null>();
      expectTypeOf(await hf.get("id")).toEqualTypeOf<Job | null>();
      expectTypeOf(await hf.get<{ to: string }, number>("id")).toEqualTypeOf<Job<{ to: string }, number> | null>();
      expectTypeOf(await hf.rerun(id)).toEqualTypeOf<EnqueueResult<{ messageId: number }>>();
      expectTypeOf(await hf.rerun("id")).toEqualTypeOf<EnqueueResult>();
    });
  });

  it("ids from enqueueMany type their results", () => {
    neverRun(async () => {
      const { hf } = await open();
      for (const result of await hf.enqueueMany(welcome, [{ to: "ada" }])) {
        if (result.error === null) expectTypeOf(await hf.result(result.id)).toEqualTypeOf<{ messageId: number }>();
      }
      await hf.enqueueMany(remind, [{ at: "2026" }], {
        onResult: (result) => expectTypeOf(result).toEqualTypeOf<EnqueueManyResult<number>>(),
      });
    });
  });

  it("ids of several types have the union of their outputs", () => {
    neverRun(async () => {
      const { hf } = await open();
      const counting = job({ type: "counting", run: () => 5 });
      const naming = job({ type: "naming", run: () => "ada" });
      for (const type of [counting, naming]) {
        expectTypeOf(await hf.result((await hf.enqueue(type)).id)).toEqualTypeOf<number | string>();
      }
      const ids = [(await hf.enqueue(counting)).id, (await hf.enqueue(naming)).id];
      for (const id of ids) expectTypeOf(await hf.result(id)).toEqualTypeOf<number | string>();
      // @ts-expect-error the second type takes no such input
      for (const type of [counting, welcome]) await hf.enqueue(type, { to: "ada" });
    });
  });

  it("a plain string id and a named type give an unknown result", () => {
    neverRun(async () => {
      const { hf } = await open();
      expectTypeOf(await hf.result("id" as string)).toEqualTypeOf<unknown>();
      expectTypeOf((await hf.enqueueNamed("welcome")).id).toEqualTypeOf<JobId>();
      expectTypeOf(await hf.result((await hf.enqueueNamed("welcome")).id)).toEqualTypeOf<unknown>();
      const id: JobId<number> = "stored elsewhere";
      expectTypeOf(await hf.result(id)).toEqualTypeOf<number>();
      // @ts-expect-error the output of another job
      const other: JobId<string> = (await hf.enqueue(remind, { at: "2026" })).id;
      return other;
    });
  });

  it("holdfast accepts all job types in one list", () => {
    neverRun(() => holdfast({ jobs: [welcome, remind, convert, cleanup] }));
    expectTypeOf(welcome).toExtend<JobType>();
    expectTypeOf(cleanup).toExtend<JobType>();
  });

  it("a handler has a typed context", () => {
    job({
      type: "context",
      input: z.string(),
      run(context) {
        expectTypeOf(context).toEqualTypeOf<RunContext<string>>();
        expectTypeOf(context.signal.reason).toEqualTypeOf<AbortReason | undefined>();
        expectTypeOf(context.job.attempt).toEqualTypeOf<number>();
        expectTypeOf(context.job.user).toEqualTypeOf<string | null>();
        expectTypeOf(context.idempotencyKey).toEqualTypeOf<string>();
        expectTypeOf(context.log).parameters.toEqualTypeOf<[line: string]>();
        expectTypeOf(context.progress).parameters.toEqualTypeOf<
          [fraction: number, note?: string | object | undefined]
        >();
      },
    });
    job({ type: "none", run: ({ input }) => expectTypeOf(input).toEqualTypeOf<Record<string, never>>() });
  });

  it("forUser has no user option, and the same payload types", () => {
    type Options = NonNullable<Parameters<UserJobs["enqueue"]>[2]>;
    expectTypeOf<Options>().toEqualTypeOf<Omit<EnqueueOptions, "user">>();
    neverRun(async () => {
      const ada = (await open()).hf.forUser("ada");
      await ada.enqueue(welcome, { to: "ada" }, { delay: "1m" });
      await ada.enqueue(cleanup);
      // @ts-expect-error the user is fixed
      await ada.enqueue(welcome, { to: "ada" }, { user: "bob" });
      // @ts-expect-error a list cannot name another user
      await ada.list({ user: "bob" });
      // @ts-expect-error a wrong payload
      await ada.enqueue(welcome, { to: 5 });
      // @ts-expect-error an unknown value
      await ada.enqueue(welcome, {} as unknown);
    });
  });

  it("expectEnqueued accepts a partial input and returns the typed job", () => {
    neverRun(async () => {
      const { hf } = await open();
      expectTypeOf(await expectEnqueued(hf, welcome, { copies: 2 })).toEqualTypeOf<
        Job<{ to: string; copies?: number | undefined }, { messageId: number }>
      >();
      // @ts-expect-error a wrong part
      await expectEnqueued(hf, welcome, { to: 5 });
    });
  });

  it("an update with the job type has a typed input", () => {
    neverRun(async () => {
      const { hf } = await open();
      await hf.update(welcome, "id", { input: { to: "ada" }, priority: 5 });
      await hf.update(welcome, "id", { priority: 5 });
      // @ts-expect-error a wrong input
      await hf.update(welcome, "id", { input: { to: 5 } });
      // @ts-expect-error a filter has no single type
      await hf.update(welcome, { state: "pending" }, { priority: 5 });
    });
  });

  it("a condition on inputs has equals or text", () => {
    expectTypeOf<{ path: "a"; equals: 1 }>().toExtend<InputCondition>();
    expectTypeOf<{ path: ["a.b", 0]; text: "x" }>().toExtend<InputCondition>();
    expectTypeOf<{ equals: 1; text: "x" }>().not.toExtend<InputCondition>();
    expectTypeOf<{ path: "a" }>().not.toExtend<InputCondition>();
  });

  it("pause takes one queue or no argument", () => {
    neverRun(async () => {
      const { hf } = await open();
      await hf.pause();
      await hf.resume("mail");
      // @ts-expect-error a queue that may be undefined
      await hf.pause(process.env["QUEUE"]);
    });
  });

  it("events are typed", () => {
    neverRun(async () => {
      const { hf } = await open();
      hf.on("failed", (event) => expectTypeOf(event.retryInMs).toEqualTypeOf<number>());
      hf.on("cancelled", (event) => expectTypeOf(event).toEqualTypeOf<{ id: string; type: string; queue: string }>());
    });
  });
});
