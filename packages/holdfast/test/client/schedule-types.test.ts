import {
  job,
  type EnqueueResult,
  type Holdfast,
  type Schedule,
  type ScheduleChanges,
  type SlotRecord,
  type SlotReason,
} from "holdfast";
import * as v from "valibot";
import { describe, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { cleanup, open } from "./scene.js";

// Checked by the compiler: each @ts-expect-error fails the build if the line below it compiles.

const welcome = job({ type: "welcome", input: z.object({ to: z.string(), copies: z.number().optional() }), run() {} });
const remind = job({
  type: "remind",
  input: z.object({ at: z.iso.datetime().transform((text) => new Date(text)) }),
  run() {},
});
const convert = job({ type: "convert", input: v.object({ file: v.string() }), run() {} });
const optional = job({ type: "optional", input: z.object({ n: z.number() }).optional(), run() {} });

/** Never called, only compiled. */
const neverRun = (_body: (hf: Holdfast) => unknown): void => {};

describe("types of schedules", () => {
  it("schedule checks the input of the job", () => {
    neverRun(async (hf) => {
      const made = hf.schedule("s", {
        job: welcome,
        input: { to: "ada" },
        cron: "0 8 * * *",
        timezone: "Europe/Berlin",
      });
      expectTypeOf(made).toEqualTypeOf<Promise<Schedule>>();
      await hf.schedule("s", { job: remind, input: { at: "2026-01-01T00:00:00Z" }, every: "15m" });
      await hf.schedule("s", { job: convert, input: { file: "a.png" }, every: 900_000, jitter: "1m", overlap: "skip" });
      await hf.schedules.create("s", { job: welcome, input: { to: "ada", copies: 2 }, every: "1h" });
      // @ts-expect-error a wrong type
      await hf.schedule("s", { job: welcome, input: { to: 5 }, every: "1h" });
      // @ts-expect-error a missing property
      await hf.schedule("s", { job: welcome, input: {}, every: "1h" });
      // @ts-expect-error an excess property
      await hf.schedule("s", { job: welcome, input: { to: "ada", cc: "bob" }, every: "1h" });
      // @ts-expect-error the input is a string; the handler receives the Date
      await hf.schedule("s", { job: remind, input: { at: new Date() }, every: "1h" });
      // @ts-expect-error valibot is as strict
      await hf.schedule("s", { job: convert, input: { file: 5 }, every: "1h" });
      // @ts-expect-error an unknown value
      await hf.schedule("s", { job: welcome, input: JSON.parse("{}") as unknown, every: "1h" });
      // @ts-expect-error a wrong type, at run time too
      await hf.schedules.create("s", { job: welcome, input: { to: 5 }, every: "1h" });
    });
  });

  it("an input is required only if the job has one", () => {
    neverRun(async (hf) => {
      await hf.schedule("s", { job: cleanup, every: "1h" });
      await hf.schedule("s", { job: cleanup, input: {}, every: "1h" });
      await hf.schedule("s", { job: optional, every: "1h" });
      await hf.schedule("s", { job: optional, input: { n: 1 }, every: "1h" });
      // @ts-expect-error no input
      await hf.schedule("s", { job: welcome, every: "1h" });
      // @ts-expect-error no input, at run time too
      await hf.schedules.create("s", { job: welcome, every: "1h" });
      // @ts-expect-error the job has no input
      await hf.schedule("s", { job: cleanup, input: { to: "ada" }, every: "1h" });
    });
  });

  it("a schedule has a pattern or an interval, and a zone only with a pattern", () => {
    neverRun(async (hf) => {
      await hf.schedule("s", { job: cleanup, cron: "@daily" });
      // @ts-expect-error both
      await hf.schedule("s", { job: cleanup, cron: "@daily", every: "1h" });
      // @ts-expect-error neither
      await hf.schedule("s", { job: cleanup });
      // @ts-expect-error neither, but a zone
      await hf.schedule("s", { job: cleanup, timezone: "UTC" });
      // @ts-expect-error an interval has no zone
      await hf.schedule("s", { job: cleanup, every: "1h", timezone: "UTC" });
      // @ts-expect-error both, at run time too
      await hf.schedules.create("s", { job: "cleanup", cron: "@daily", every: "1h" });
      // @ts-expect-error both, in a preview
      await hf.schedules.preview({ cron: "@daily", every: "1h" });
      // @ts-expect-error an interval in a preview has no zone
      await hf.schedules.preview({ every: "1h", timezone: "UTC" });
    });
  });

  it("misspelt and impossible options do not compile", () => {
    neverRun(async (hf) => {
      // @ts-expect-error timeZone
      await hf.schedule("s", { job: cleanup, cron: "@daily", timeZone: "UTC" });
      // @ts-expect-error no such catchUp
      await hf.schedule("s", { job: cleanup, every: "1h", catchUp: "all" });
      // @ts-expect-error all of how many
      await hf.schedule("s", { job: cleanup, every: "1h", catchUp: {} });
      // @ts-expect-error no such overlap
      await hf.schedule("s", { job: cleanup, every: "1h", overlap: "forbid" });
      // @ts-expect-error yes
      await hf.schedule("s", { job: cleanup, every: "1h", enabled: "yes" });
      // @ts-expect-error a name is not a job type
      await hf.schedule("s", { job: "cleanup", every: "1h" });
      // @ts-expect-error no job
      await hf.schedule("s", { every: "1h" });
      // @ts-expect-error an option of enqueue
      await hf.schedule("s", { job: cleanup, every: "1h", delay: "5m" });
      // @ts-expect-error priorty
      await hf.schedules.update("s", { priorty: 5 });
      // @ts-expect-error null only for optional settings
      await hf.schedules.update("s", { queue: null });
      // @ts-expect-error no such origin
      await hf.schedules.list({ origin: "cli" });
      // @ts-expect-error a preview of a timing has no job
      await hf.schedules.preview({ job: cleanup, every: "1h" });
      const { hf: client } = await open();
      // @ts-expect-error every
      await open({ scheduler: { every: "5s" } });
      // @ts-expect-error none or the options of one
      await open({ scheduler: true });
      // @ts-expect-error no such event
      client.on("fire", () => {});
    });
  });

  it("a schedule created at run time may name its job type", () => {
    neverRun(async (hf) => {
      await hf.schedules.create("s", { job: "elsewhere", input: { any: "thing" }, every: "1h" });
      await hf.schedules.create("s", { job: "elsewhere", cron: "@daily" });
    });
  });

  it("an update has the changed settings, and null to remove one", () => {
    neverRun(async (hf) => {
      await hf.schedules.update("s", {});
      await hf.schedules.update("s", { every: "5m" });
      await hf.schedules.update("s", { job: welcome, input: { to: "ada" } });
      await hf.schedules.update("s", { startAt: null, endAt: null, user: null });
    });
    expectTypeOf<ScheduleChanges["endAt"]>().toEqualTypeOf<Date | number | string | null | undefined>();
  });

  it("results are typed", () => {
    neverRun(async (hf) => {
      expectTypeOf(await hf.unschedule("s")).toEqualTypeOf<boolean>();
      expectTypeOf(await hf.schedules.remove("s")).toEqualTypeOf<boolean>();
      expectTypeOf(await hf.schedules.get("s")).toEqualTypeOf<Schedule | null>();
      expectTypeOf(await hf.schedules.preview("s", 3)).toEqualTypeOf<Date[]>();
      expectTypeOf(await hf.schedules.runNow("s")).toEqualTypeOf<EnqueueResult>();
      expectTypeOf(await hf.schedules.fireDue()).toEqualTypeOf<number>();
      expectTypeOf((await hf.schedules.list()).schedules).toEqualTypeOf<Schedule[]>();
      expectTypeOf<Schedule["slots"][number]>().toEqualTypeOf<SlotRecord>();
    });
  });

  it("handlers and listeners receive the slot", () => {
    job({
      type: "context",
      run({ job: { schedule } }) {
        expectTypeOf(schedule?.name).toEqualTypeOf<string | undefined>();
        expectTypeOf(schedule?.slot).toEqualTypeOf<Date | undefined>();
      },
    });
    neverRun((hf) => {
      hf.on("fired", (event) =>
        expectTypeOf(event).toEqualTypeOf<{ schedule: string; slot: Date; id: string; reason: SlotReason | null }>(),
      );
      hf.on("skipped", (event) => expectTypeOf(event.through).toEqualTypeOf<Date | null>());
    });
  });
});
