import { holdfast, InvalidOptionError, job, UnknownStoreError } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { cleanup, double, errorOf, expectRefusal } from "./scene.js";

const run = (): void => {};
const define = job as (definition: unknown) => unknown;
const make = holdfast as (options: unknown) => Promise<unknown>;

describe("job() refuses and names the field", () => {
  it.each<[string, unknown, string, RegExp]>([
    ["an empty type", { type: "", run }, "type", /non-empty string/],
    ["no type", { run }, "type", /non-empty string/],
    ["a type over 200 characters", { type: "x".repeat(201), run }, "type", /201 characters long; the limit is 200/],
    ["a type with control characters", { type: "a\u0000b", run }, "type", /control characters/],
    ["a type with a lone surrogate", { type: "a\ud800", run }, "type", /broken Unicode/],
    ["no run", { type: "x" }, "run", /undefined is not a function; it runs the jobs of type x/],
    ["a run that is no function", { type: "x", run: "now" }, "run", /"now" is not a function/],
    ["an input that is no schema", { type: "x", run, input: { to: "string" } }, "input", /Standard Schema; use zod/],
    ["a timeout of nothing", { type: "x", run, timeout: 0 }, "timeout", /longer than 0/],
    ["a timeout in words", { type: "x", run, timeout: "a minute" }, "timeout", /is not a duration/],
    ["an expiry of nothing", { type: "x", run, expiresAfter: 0 }, "expiresAfter", /longer than 0/],
    ["an empty queue", { type: "x", run, queue: "" }, "queue", /non-empty string/],
    ["a priority out of range", { type: "x", run, priority: 500 }, "priority", /-100 to 100/],
    ["tags that are not an array", { type: "x", run, tags: "a" }, "tags", /must be an array/],
    [
      "retry that is not an object",
      { type: "x", run, retry: 3 },
      "retry",
      /3 is not an options object; known: maxAttempts/,
    ],
    ["no attempts", { type: "x", run, retry: { maxAttempts: 0 } }, "retry.maxAttempts", /1 to 1000/],
    ["attempts as text", { type: "x", run, retry: { maxAttempts: "3" } }, "retry.maxAttempts", /1 to 1000/],
    [
      "a backoff by name",
      { type: "x", run, retry: { backoff: "exponential" } },
      "retry.backoff",
      /known: base, factor/,
    ],
    [
      "a shrinking backoff",
      { type: "x", run, retry: { backoff: { factor: 0.5 } } },
      "retry.backoff.factor",
      /at least 1/,
    ],
    [
      "a jitter next to a backoff function",
      { type: "x", run, retry: { jitter: 0 } },
      "retry.jitter",
      /is not an option of retry; known: maxAttempts, backoff; did you mean retry\.backoff\.jitter\?/,
    ],
    [
      "a base above its max",
      { type: "x", run, retry: { backoff: { base: "1h", max: "15m" } } },
      "retry.backoff.base",
      /"1h" is longer than max, "15m"; raise max/,
    ],
    ["a base in words", { type: "x", run, retry: { backoff: { base: "soon" } } }, "retry.backoff.base", /duration/],
    ["jitter over one", { type: "x", run, retry: { backoff: { jitter: 2 } } }, "retry.backoff.jitter", /0 to 1/],
    ["a misspelt option", { type: "x", run, timout: "1m" }, "timout", /not an option of job; known: .*timeout/],
    [
      "a misspelt retry option",
      { type: "x", run, retry: { attempts: 3 } },
      "retry.attempts",
      /known: maxAttempts, backoff/,
    ],
    [
      "a misspelt backoff option",
      { type: "x", run, retry: { backoff: { cap: "1m" } } },
      "retry.backoff.cap",
      /known: .*max/,
    ],
    ["nothing at all", undefined, "job", /is not an options object/],
  ])("%s", async (_name, definition, field, says) => {
    await expectRefusal(() => define(definition), { is: InvalidOptionError, code: "INVALID_OPTION", field, says });
  });

  it("accepts a type of 200 characters", () => {
    expect(job({ type: "x".repeat(200), run }).type).toHaveLength(200);
  });

  it("a job type is read-only", () => {
    expect(Object.isFrozen(double)).toBe(true);
  });
});

describe("holdfast() refuses and names the option", () => {
  const twin = job({ type: "double", input: z.object({}), run });

  it.each<[string, unknown, string, RegExp]>([
    ["a type that is there twice", { jobs: [double, cleanup, twin] }, "jobs.2", /the type double is listed twice/],
    ["what is not a job type", { jobs: [double, { type: "x" }] }, "jobs.1", /make it with job/],
    ["a job type forgotten", { jobs: [undefined] }, "jobs.0", /is not a job type/],
    ["jobs that are no list", { jobs: double }, "jobs", /must be an array/],
    ["an unknown option", { store: "sqlite::memory:", job: [double] }, "job", /known: store, jobs, retry, retention/],
    ["a store that is none", { store: 5 }, "store", /5 is neither the URL of a store nor a store/],
    [
      "a store that is not set",
      { store: undefined },
      "store",
      /^store is undefined; is the environment variable set\?/,
    ],
    ["a store that is null", { store: null }, "store", /null is neither the URL of a store nor a store/],
    ["a store without a file", { store: "sqlite:" }, "store", /has no file name/],
    [
      "an unknown state in retention",
      { retention: { running: "1d" } },
      "retention.running",
      /known: completed, dead, cancelled/,
    ],
    ["a retention that says nothing", { retention: { dead: {} } }, "retention.dead", /an age, a count or both/],
    ["a negative count", { retention: { dead: { count: -1 } } }, "retention.dead.count", /whole number from 0/],
    ["options that are no object", "sqlite::memory:", "holdfast", /is not an options object/],
  ])("%s", async (_name, options, field, says) => {
    await expectRefusal(make(options), { is: InvalidOptionError, code: "INVALID_OPTION", field, says });
  });

  it.each(["mysql://localhost/jobs", "jobs.db", "", "C:\\jobs.db", "memory"])(
    "refuses the unknown store %j and lists the known forms",
    async (store) => {
      const says = /unknown store .*; use "sqlite:<file>"/;
      await expectRefusal(holdfast({ store }), { is: UnknownStoreError, code: "UNKNOWN_STORE", says });
    },
  );

  it("hides the password of a mistyped URL", async () => {
    const error = await errorOf(holdfast({ store: "postgress://app:s3cret@db.example:5432/jobs" }));
    expect((error as Error).message).toContain("postgress://app:***@db.example:5432/jobs");
    expect((error as Error).message).not.toContain("s3cret");
  });
});
