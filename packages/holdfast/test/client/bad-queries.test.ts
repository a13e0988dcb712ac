import { InvalidOptionError, JobNotFoundError, RetryAfter, job } from "holdfast";
import { describe, expect, it } from "vitest";
import { cleanup, double, expectRefusal, jobCount, jobOf, open, stateOf, untyped } from "./scene.js";

const is = { is: InvalidOptionError, code: "INVALID_OPTION" } as const;

describe("list refuses and names the option", () => {
  it.each<[string, unknown, string, RegExp]>([
    ["an unknown state", { state: "queued" }, "state", /"queued" is none of pending, claimed, running/],
    ["an unknown state among others", { state: ["dead", "constructor"] }, "state", /is none of/],
    ["a limit of 0", { limit: 0 }, "limit", /0 is not a whole number from 1 to 1000/],
    ["a limit of 1001", { limit: 1_001 }, "limit", /1 to 1000/],
    ["a limit as text", { limit: "50" }, "limit", /1 to 1000/],
    ["payloads that are neither there nor not", { payloads: "no" }, "payloads", /"no" is neither true nor false/],
    ["a cursor that list never gave", { cursor: "'; DROP TABLE" }, "cursor", /is not a cursor of an earlier page/],
    ["a cursor that is a number", { cursor: 5 }, "cursor", /is not a cursor/],
    ["an empty type", { type: "" }, "type", /non-empty string/],
    ["a type that is nothing", { type: null }, "type", /non-empty string/],
    ["an empty queue", { queue: [""] }, "queue", /non-empty string/],
    ["an empty user", { user: "" }, "user", /non-empty string/],
    ["an empty tag", { tag: "" }, "tag", /non-empty string/],
    ["a time in words", { createdAfter: "yesterday" }, "createdAfter", /ISO 8601/],
    ["a time without a zone", { createdAfter: "2026-01-01" }, "createdAfter", /has no time zone/],
    ["a day that does not exist", { createdBefore: "2026-02-30T00:00:00Z" }, "createdBefore", /does not exist/],
    ["a time that is none", { createdBefore: new Date("x") }, "createdBefore", /ISO 8601/],
    ["a misspelt condition", { states: "dead" }, "states", /not an option of list; known: id, state, type/],
    ["an id in place of options", "018f4d2e-7b3a-7c11-8a55-0123456789ab", "list", /is not an options object/],
  ])("%s", async (_name, options, field, says) => {
    const { hf } = await open();
    await expectRefusal(untyped(hf).list(options), { ...is, field, says });
  });
});

it.each(["abc", "-5", "1e3"])("list refuses the forged cursor %j", async (cursor) => {
  const { hf } = await open();
  await expectRefusal(hf.list({ cursor }), { ...is, field: "cursor" });
});

describe.each(["cancel", "retry", "remove"] as const)("%s refuses, names the option and changes nothing", (call) => {
  it.each<[string, unknown, string, RegExp]>([
    ["an id that is no UUID", "7", "id", /is not a UUID/],
    ["nothing", undefined, "a filter", /undefined is not an options object/],
    ["a list with what is no id", ["nonsense"], "id", /nonsense/],
    ["a filter without any condition", {}, "filter", /at least one condition/],
    ["a misspelt condition", { typ: "double" }, "typ", /known: id, state, type/],
    ["the limit of a list", { limit: 5 }, "limit", /not an option of a filter/],
    ["an unknown state", { state: "queued" }, "state", /none of/],
    ["a condition whose value went missing", { user: undefined }, "user", /undefined; give it a value/],
  ])("%s", async (_name, target, field, says) => {
    const { hf } = await open();
    const { id } = await hf.enqueue(cleanup);
    await expectRefusal(untyped(hf)[call](target), { ...is, field, says });
    expect(await stateOf(hf, id)).toBe("pending");
    expect(await jobCount(hf)).toBe(1);
  });
});

describe("other calls refuse and name the argument", () => {
  it.each<
    [
      string,
      "get" | "result" | "rerun" | "pause" | "resume" | "purge" | "claim" | "runNext" | "drain" | "work",
      unknown,
      string,
      RegExp,
    ]
  >([
    ["get of no UUID", "get", "7", "id", /is not a UUID/],
    ["get of a BigInt", "get", 7n, "id", /is neither a job id nor { key }/],
    ["result of no UUID", "result", "7", "id", /is not a UUID/],
    ["rerun of no UUID", "rerun", "7", "id", /is not a UUID/],
    ["pause of no queue", "pause", "", "queue", /non-empty string/],
    ["resume of no queue", "resume", undefined, "queue", /is undefined; for all queues call resume\(\)/],
    ["purge of jobs that wait", "purge", { state: "pending", olderThan: 0 }, "state", /"pending" is none of completed/],
    ["purge without an age", "purge", { state: "dead" }, "olderThan", /not a duration/],
    ["purge with a misspelt age", "purge", { state: "dead", olderThen: "1d" }, "olderThen", /known: state, olderThan/],
    ["claim of none", "claim", { limit: 0 }, "limit", /1 to 500/],
    ["claim of too many", "claim", { limit: 501 }, "limit", /1 to 500/],
    ["claim with a lease too short", "claim", { lease: 99 }, "lease", /at least 100 ms/],
    ["claim with the options of a worker", "claim", { concurrency: 2 }, "concurrency", /known: queues, types, limit/],
    ["claim of no types", "claim", { types: [] }, "types", /empty/],
    ["claim of no queues", "claim", { queues: [] }, "queues", /empty/],
    ["tick with a misspelt option", "runNext", { queue: "a" }, "queue", /known: concurrency, queues/],
    ["drain with a misspelt option", "drain", { type: "a" }, "type", /known: concurrency, queues/],
    ["work with no handlers at once", "work", { concurrency: 0 }, "concurrency", /1 to 1000/],
    ["work with a poll of nothing", "work", { poll: 0 }, "poll", /longer than 0/],
    ["work with an unknown unknownType", "work", { unknownType: "die" }, "unknownType", /"wait", "dead"/],
    ["work with a misspelt option", "work", { concurency: 5 }, "concurency", /known: concurrency/],
  ])("%s", async (_name, call, argument, field, says) => {
    const { hf } = await open();
    await expectRefusal(() => untyped(hf)[call](argument), { ...is, field, says });
    expect(await hf.workers()).toEqual([]);
  });

  it("forUser needs a user", async () => {
    const { hf } = await open();
    await expectRefusal(() => hf.forUser(""), { ...is, field: "user" });
    await expectRefusal(() => hf.forUser(undefined as never), { ...is, field: "user" });
  });

  it("rerun of a missing job throws", async () => {
    const { hf } = await open();
    const missing = "018f4d2e-7b3a-7c11-8a55-0123456789ab";
    await expectRefusal(hf.rerun(missing), { is: JobNotFoundError, code: "JOB_NOT_FOUND", says: new RegExp(missing) });
  });

  it("result refuses an invalid timeout", async () => {
    const { hf } = await open({ jobs: [double] });
    const { id } = await hf.enqueue(double, { n: 1 });
    await expectRefusal(hf.result(id, { timeout: "soon" }), { ...is, field: "timeout" });
  });
});

describe("an invalid call inside a handler fails the attempt", () => {
  it.each([["soon"], [-1], [Number.NaN], [undefined], [null], ["11y"], ["4000d"]])(
    "RetryAfter refuses the delay %s",
    async (delay) => {
      await expectRefusal(() => new RetryAfter(delay as never), { ...is, field: "RetryAfter" });

      // The error of the invalid RetryAfter fails the attempt.
      const later = job({
        type: "later",
        retry: { backoff: { base: "7s", jitter: 0 } },
        run: () => raise(new RetryAfter(delay as never)),
      });
      const { hf, clock } = await open({ jobs: [later] });
      const { id } = await hf.enqueue(later);
      await hf.runNext();
      const failed = await jobOf(hf, id);
      expect(failed).toMatchObject({ state: "failed", error: { code: "INVALID_OPTION" }, attempt: 1 });
      expect(failed.error?.message).toMatch(/^RetryAfter: /);
      expect(failed.dueAt?.getTime()).toBe(clock.now() + 7_000);
    },
  );

  it.each([-0.1, 1.1, Number.NaN, "half" as unknown as number])("progress refuses %s", async (fraction) => {
    const type = job({ type: "steps", run: ({ progress }) => progress(fraction) });
    const { hf } = await open({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    await hf.runNext();
    const failed = await jobOf(hf, id);
    expect(failed).toMatchObject({ state: "failed", progress: null, error: { code: "INVALID_OPTION" } });
    expect(failed.error?.message).toMatch(/^progress: .* is not a fraction from 0 to 1$/);
  });
});

function raise(error: Error): never {
  throw error;
}
