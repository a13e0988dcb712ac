import { Cancel, NotRetryable, RetryAfter, StepFailedError } from "holdfast";
import { describe, expect, it } from "vitest";
import { deferred, eventsOf, scene } from "./scene.js";
import { AT_ONCE, run, stepping } from "./step-scene.js";

describe("steps", () => {
  it("run once, although the handler runs again", async () => {
    const calls: string[] = [];
    const {
      id,
      job: read,
      stepsOf,
    } = await run(async ({ step, job: { attempt } }) => {
      const first = await step("first", () => calls.push("first"));
      await step("second", () => {
        calls.push("second");
        if (attempt < 3) throw new Error("down");
      });
      return { first };
    });
    expect(calls).toEqual(["first", "second", "second", "second"]);
    expect(await read(id)).toMatchObject({ state: "completed", attempt: 3, output: { first: 1 } });
    expect(await stepsOf()).toEqual([
      ["first", "done", 1],
      ["second", "done", null],
    ]);
  });

  it("return the same value in the first run and in later ones", async () => {
    const seen: unknown[] = [];
    await run(async ({ step, job: { attempt } }) => {
      seen.push(await step("value", () => ({ at: new Date(0), left: undefined, list: [1, { deep: "é" }] })));
      seen.push(await step("nothing", () => {}));
      seen.push(await step("null", () => null));
      if (attempt === 1) throw new Error("again");
    });
    const first = [{ at: "1970-01-01T00:00:00.000Z", list: [1, { deep: "é" }] }, undefined, null];
    expect(seen).toEqual([...first, ...first]);
    expect(seen[0]).not.toHaveProperty("left");
  });

  it("cost a job without steps no call of the store", async () => {
    const { store } = await run(() => ({ plain: true }));
    expect([store.count("steps"), store.count("saveSteps")]).toEqual([0, 0]);
  });

  it("are not read at the first claim", async () => {
    const { store } = await run(({ step }) => step("one", () => 1));
    expect([store.count("steps"), store.count("saveSteps")]).toEqual([0, 1]);
  });

  it("that run at once are stored together", async () => {
    const { store } = await run(({ step }) => Promise.all([1, 2, 3].map((n) => step(["item", n], () => n))));
    expect(store.count("saveSteps")).toBe(1);
  });

  it("have names from arrays, whose parts are escaped", async () => {
    const { stepsOf } = await run(async ({ step }) => {
      await step(["a/b", "c"], () => 1);
      await step(["a", "b/c"], () => 2);
      await step(["a", 7, "100%"], () => 3);
    });
    expect((await stepsOf()).map((step) => (step as unknown[])[0])).toEqual(["a%2Fb/c", "a/b%2Fc", "a/7/100%25"]);
  });

  it("get an idempotency key that stays the same", async () => {
    const keys: string[] = [];
    const { id } = await run(async ({ step, job: { attempt } }) => {
      await step(["pay", 7], ({ idempotencyKey }) => {
        keys.push(idempotencyKey);
        if (attempt < 2) throw new Error("down");
      });
    });
    expect(keys).toEqual([`${id}/pay/7`, `${id}/pay/7`]);
  });

  it("with the same name are refused, and the job is dead", async () => {
    const { id, job: read } = await run(async ({ step }) => {
      await step("same", () => 1);
      await step("same", () => 2);
    });
    expect(await read(id)).toMatchObject({ state: "dead", attempt: 1, error: { code: "DUPLICATE_STEP" } });
    expect((await read(id)).error?.message).toContain('["same", id]');
  });

  it("with the same name at once are refused too", async () => {
    const { id, job: read } = await run(({ step }) => Promise.all([step("same", () => 1), step("same", () => 2)]));
    expect(await read(id)).toMatchObject({ state: "dead", error: { code: "DUPLICATE_STEP" } });
  });

  it("that became another kind are refused", async () => {
    const { id, job: read } = await run(async ({ step, sleep, job: { attempt } }) => {
      if (attempt === 1) {
        await step("pause", () => 1);
        throw new Error("again");
      }
      await sleep("pause", "1s");
    });
    expect(await read(id)).toMatchObject({ state: "dead", error: { code: "STEP_CHANGED" } });
  });

  for (const [what, value, problem] of [
    ["that JSON cannot carry", 1n, "BigInt"],
    ["that is too large", "x".repeat(300_000), "262144"],
    ["with the character NUL", "a\0b", "NUL"],
  ] as const) {
    it(`refuse a result ${what}, and do not run again`, async () => {
      let calls = 0;
      const { id, job: read } = await run(({ step }) =>
        step("bad", () => {
          calls++;
          return value as string;
        }),
      );
      expect(await read(id)).toMatchObject({ state: "dead", error: { code: "INVALID_STEP_RESULT" } });
      expect((await read(id)).error?.message).toContain(problem);
      expect(calls).toBe(1);
    });
  }

  for (const [what, name] of [
    ["empty", ""],
    ["too long", "x".repeat(201)],
    ["no string", 7],
    ["an array with an object", [{}]],
    ["with a line break", "a\nb"],
  ] as const) {
    it(`with a name that is ${what} is refused`, async () => {
      const { id, job: read } = await run(({ step }) => step(name as never, () => 1), { ...AT_ONCE, maxAttempts: 1 });
      expect(await read(id)).toMatchObject({ state: "dead", error: { code: "INVALID_OPTION" } });
      expect((await read(id)).error?.message).toMatch(/^step/);
    });
  }

  it("are limited to 1,000 in a job", async () => {
    const { id, job: read } = await run(async ({ step }) => {
      for (let n = 0; n <= 1_000; n++) await step(["n", n], () => n);
    });
    expect(await read(id)).toMatchObject({ state: "dead", error: { code: "TOO_MANY_STEPS" } });
  });

  it("called after the handler has ended reject", async () => {
    const late = deferred<unknown>();
    const gate = deferred<void>();
    const { id, job: read } = await run(({ step }) => {
      void gate.promise.then(() => step("late", () => 1)).then(late.resolve, late.resolve);
    });
    gate.resolve();
    expect(await late.promise).toMatchObject({ code: "STEP_TOO_LATE" });
    expect(await read(id)).toMatchObject({ state: "completed" });
  });

  it("that are not awaited and fail do not end the process", async () => {
    const { id, job: read } = await run(({ step }) => {
      void step("lost", () => Promise.reject(new Error("unseen")));
    });
    expect(await read(id)).toMatchObject({ state: "completed" });
  });
});

describe("failed steps", () => {
  it("throw an error with the message and code of what was thrown", async () => {
    const caught: StepFailedError[] = [];
    await run(async ({ step, job: { attempt } }) => {
      try {
        await step("pay", () => Promise.reject(Object.assign(new TypeError("declined"), { code: "E_CARD" })));
      } catch (error) {
        caught.push(error as StepFailedError);
      }
      if (attempt === 1) throw new Error("something else");
    });
    for (const error of caught)
      expect(error).toMatchObject({ step: "pay", code: "E_CARD", message: 'step "pay" failed: declined' });
    expect(caught.map((error) => error instanceof StepFailedError)).toEqual([true, true]);
    expect(caught[0]?.cause).toBeInstanceOf(TypeError);
  });

  it("that the handler catches are not run again", async () => {
    let calls = 0;
    const { id, job: read } = await run(async ({ step, job: { attempt } }) => {
      const paid = await step("pay", () => {
        calls++;
        throw new Error("declined");
      }).catch(() => false);
      if (attempt < 3) throw new Error("something else");
      return { paid };
    });
    expect(calls).toBe(1);
    expect(await read(id)).toMatchObject({ state: "completed", output: { paid: false } });
  });

  it("that fail the attempt run again in the next, also within other errors", async () => {
    let calls = 0;
    const { id, job: read } = await run(async ({ step, job: { attempt } }) => {
      await Promise.allSettled([step("other", () => Promise.reject(new Error("caught")))]);
      try {
        await step("pay", () => {
          calls++;
          if (attempt < 3) throw new Error("declined");
        });
      } catch (error) {
        if (attempt === 1) throw new AggregateError([new Error("one"), error], "several");
        throw new Error("wrapped", { cause: error });
      }
    });
    expect(calls).toBe(3);
    expect(await read(id)).toMatchObject({ state: "completed", attempt: 3 });
  });

  it("of a dead job run again after a retry", async () => {
    let healthy = false;
    let first = 0;
    const on = await run(async ({ step }) => {
      await step("first", () => first++);
      await step("second", () => {
        if (!healthy) throw new Error("down");
        return "up";
      });
    });
    expect(await on.job(on.id)).toMatchObject({ state: "dead", attempt: 3 });
    healthy = true;
    expect(await on.hf.retry(on.id)).toBe("retried");
    await on.hf.drain();
    expect(await on.job(on.id)).toMatchObject({ state: "completed" });
    expect(first).toBe(1);
  });

  for (const [error, expected] of [
    [new NotRetryable("no"), { state: "dead", attempt: 1 }],
    [new Cancel("no need"), { state: "cancelled" }],
    [new RetryAfter("1m"), { state: "failed", attempt: 1 }],
  ] as const) {
    it(`${error.constructor.name} in a step is about the job`, async () => {
      const {
        id,
        job: read,
        stepsOf,
      } = await run(({ step }) =>
        step("decide", () => {
          throw error;
        }),
      );
      expect(await read(id)).toMatchObject(expected);
      expect(await stepsOf()).toEqual([]);
    });
  }

  it("are retried in place as their own retry says", async () => {
    const attempts: number[] = [];
    const on = await scene({
      jobs: [
        stepping(({ step }) =>
          step(
            "flaky",
            ({ attempt }) => {
              attempts.push(attempt);
              if (attempt < 3) throw new Error("down");
              return attempt;
            },
            { retry: { maxAttempts: 5, backoff: { base: "2s", factor: 1, jitter: 0 } } },
          ),
        ),
      ],
    });
    const { id } = await on.hf.enqueueNamed("stepping");
    const running = on.hf.runNext();
    await on.clock.settle();
    expect(attempts).toEqual([1]);
    await on.clock.advance("2s");
    await on.clock.advance("2s");
    expect(await running).toBe(true);
    expect(attempts).toEqual([1, 2, 3]);
    expect(await on.job(id)).toMatchObject({ state: "completed", attempt: 1, output: 3 });
    expect(await on.hf.steps(id)).toMatchObject([{ name: "flaky", tries: 2 }]);
  });

  it("with long delays park the job, and count on", async () => {
    const attempts: number[] = [];
    const on = await run(
      ({ step }) =>
        step(
          "flaky",
          ({ attempt }) => {
            attempts.push(attempt);
            throw new Error("down");
          },
          { retry: { maxAttempts: 3, backoff: { base: "1h", factor: 1, jitter: 0 } } },
        ),
      { ...AT_ONCE, maxAttempts: 1 },
    );
    expect(await on.job(on.id)).toMatchObject({ state: "pending", attempt: 0, worker: null });
    await on.clock.advance("1h");
    await on.hf.drain();
    await on.clock.advance("1h");
    await on.hf.drain();
    expect(attempts).toEqual([1, 2, 3]);
    expect(await on.job(on.id)).toMatchObject({ state: "dead", error: { message: 'step "flaky" failed: down' } });
  });

  it("fail at their timeout, with their signal aborted", async () => {
    let reason: unknown;
    const on = await scene({
      jobs: [
        stepping(
          ({ step }) =>
            step(
              "slow",
              ({ signal }) =>
                new Promise((_, reject) =>
                  signal.addEventListener("abort", () => {
                    reason = signal.reason;
                    reject(new Error("aborted"));
                  }),
                ),
              { timeout: "10s" },
            ),
          { ...AT_ONCE, maxAttempts: 1 },
        ),
      ],
    });
    const { id } = await on.hf.enqueueNamed("stepping");
    const running = on.hf.runNext();
    await on.clock.settle();
    await on.clock.advance("10s");
    await running;
    expect(reason).toMatchObject({ code: "STEP_TIMEOUT" });
    expect(await on.job(id)).toMatchObject({ state: "dead", error: { code: "STEP_TIMEOUT" } });
  });

  it("refuse unknown options", async () => {
    const { id, job: read } = await run(({ step }) => step("x", () => 1, { retries: 3 } as never), {
      ...AT_ONCE,
      maxAttempts: 1,
    });
    expect((await read(id)).error?.message).toContain("step.retries is not an option of step");
  });
});

describe("parked jobs", () => {
  it("sleep without a worker, and go on where they stopped", async () => {
    const calls: string[] = [];
    const on = await run(async ({ step, sleep }) => {
      await step("before", () => calls.push("before"));
      await sleep("three days", "3d");
      await step("after", () => calls.push("after"));
      return "done";
    });
    const parked = eventsOf(on.hf, "parked");
    expect(calls).toEqual(["before"]);
    expect(await on.job(on.id)).toMatchObject({ state: "pending", attempt: 0, worker: null });
    expect((await on.job(on.id)).dueAt).toEqual(new Date(on.clock.now() + 3 * 86_400_000));
    await on.clock.advance("2d");
    expect(await on.hf.drain()).toBe(0);
    await on.clock.advance("1d");
    expect(await on.hf.drain()).toBe(1);
    expect(calls).toEqual(["before", "after"]);
    expect(await on.job(on.id)).toMatchObject({ state: "completed", output: "done", attempt: 1 });
    expect(parked).toEqual([]);
  });

  it("sleep until a date, and not at all for one that has passed", async () => {
    const on = await run(async ({ sleep, job: { createdAt } }) => {
      await sleep("past", new Date(createdAt.getTime() - 1));
      await sleep("until", new Date(createdAt.getTime() + 60_000));
    });
    expect((await on.hf.steps(on.id)).map(({ name }) => name)).toEqual(["until"]);
    await on.clock.advance("1m");
    await on.hf.drain();
    expect(await on.job(on.id)).toMatchObject({ state: "completed" });
  });

  it("keep their worker during short sleeps", async () => {
    const on = await scene({ jobs: [stepping(({ sleep }) => sleep("nap", "5s"))] });
    const { id } = await on.hf.enqueueNamed("stepping");
    const running = on.hf.runNext();
    await on.clock.settle();
    expect(await on.job(id)).toMatchObject({ state: "claimed" });
    await on.clock.advance("5s");
    await running;
    expect(await on.job(id)).toMatchObject({ state: "completed", attempt: 1 });
  });

  it("wait for an event that comes later", async () => {
    const on = await run(async ({ waitFor }) => waitFor("payment", { event: "paid:7" }));
    expect(await on.job(on.id)).toMatchObject({ state: "pending" });
    expect(await on.hf.emit("paid:7", { amount: 3 })).toEqual({ first: true });
    await on.hf.drain();
    expect(await on.job(on.id)).toMatchObject({ state: "completed", output: { amount: 3 } });
  });

  it("do not wait for an event that came before", async () => {
    const type = stepping(({ waitFor }) => waitFor("payment", { event: "paid:7", timeout: "1d" }));
    const on = await scene({ jobs: [type] });
    await on.hf.emit("paid:7");
    expect(await on.hf.emit("paid:7", "too late")).toEqual({ first: false });
    const { id } = await on.hf.enqueue(type);
    await on.hf.drain();
    expect(await on.job(id)).toMatchObject({ state: "completed", output: {} });
  });

  it("get null at the timeout of a wait", async () => {
    const on = await run(async ({ waitFor }) => ({ paid: await waitFor("payment", { event: "paid", timeout: "1d" }) }));
    await on.clock.advance("1d");
    await on.hf.drain();
    expect(await on.job(on.id)).toMatchObject({ state: "completed", output: { paid: null } });
    await on.hf.emit("paid", 1);
    expect(await on.hf.steps(on.id)).toMatchObject([{ name: "payment", kind: "event", state: "done", value: null }]);
  });

  it("wait for several events at once", async () => {
    const on = await run(({ waitFor }) =>
      Promise.all([waitFor("a", { event: "a" }), waitFor("b", { event: "b" }), waitFor("c", { event: "c" })]),
    );
    for (const event of ["b", "a", "c"]) {
      expect(await on.job(on.id)).toMatchObject({ state: "pending" });
      await on.hf.emit(event, event);
      await on.hf.drain();
    }
    expect(await on.job(on.id)).toMatchObject({ state: "completed", output: ["a", "b", "c"], attempt: 1 });
  });

  it("park once all branches wait, not while a step runs", async () => {
    const gate = deferred<void>();
    const type = stepping(({ step, waitFor }) =>
      Promise.all([waitFor("never", { event: "x" }), step("long", () => gate.promise)]),
    );
    const on = await scene({ jobs: [type] });
    const { id } = await on.hf.enqueue(type);
    const running = on.hf.runNext();
    await on.clock.settle();
    await on.clock.advance("10s");
    expect(await on.job(id)).toMatchObject({ state: "running" });
    gate.resolve();
    await running;
    expect(await on.job(id)).toMatchObject({ state: "pending" });
  });

  it("go on in place if the event comes while a step runs", async () => {
    const gate = deferred<void>();
    const seen = deferred<unknown>();
    const type = stepping(async ({ step, waitFor }) => {
      await Promise.all([waitFor("soon", { event: "x" }).then(seen.resolve), step("long", () => gate.promise)]);
    });
    const on = await scene({ jobs: [type] });
    const { id } = await on.hf.enqueue(type);
    const running = on.hf.runNext();
    await on.clock.settle();
    await on.hf.emit("x", 1);
    await on.clock.advance("2s");
    expect(await seen.promise).toBe(1);
    gate.resolve();
    await running;
    expect(await on.job(id)).toMatchObject({ state: "completed", attempt: 1 });
  });

  it("run finally blocks when they park, and ignore what a handler does then", async () => {
    const log: string[] = [];
    const on = await run(async ({ sleep, step, waitFor }) => {
      try {
        await sleep("long", "1d");
        log.push("slept");
      } catch (error) {
        log.push((error as { code: string }).code);
        await step("cheat", () => log.push("cheated")).catch((late: { code: string }) => log.push(late.code));
        await waitFor("other", { event: "x" }).catch(() => {});
        return "caught";
      } finally {
        log.push("finally");
      }
      return "slept";
    });
    expect(log).toEqual(["PARKED", "PARKED", "finally"]);
    expect(await on.job(on.id)).toMatchObject({ state: "pending", error: null });
    await on.clock.advance("1d");
    await on.hf.drain();
    expect(await on.job(on.id)).toMatchObject({ state: "completed", output: "slept" });
  });

  it("count failures in a row: a finished step gives all attempts back", async () => {
    let failures = 0;
    const on = await run(async ({ step, sleep, job: { attempt } }) => {
      for (const n of [1, 2, 3]) {
        await step(["work", n], () => {
          if (attempt < 3) {
            failures++;
            throw new Error("down");
          }
        });
        await sleep(["pause", n], "1h");
      }
    });
    for (let n = 0; n < 3; n++) {
      await on.clock.advance("1h");
      await on.hf.drain();
    }
    expect(failures).toBe(6);
    expect(await on.job(on.id)).toMatchObject({ state: "completed" });
  });

  it("can be cancelled, promoted and updated", async () => {
    const on = await run(({ sleep }) => sleep("long", "1d"));
    await on.hf.promote(on.id);
    await on.hf.drain();
    expect(await on.job(on.id)).toMatchObject({ state: "pending" });
    await on.hf.update(on.id, { priority: 5 });
    expect(await on.job(on.id)).toMatchObject({ priority: 5, state: "pending" });
    expect(await on.hf.cancel(on.id)).toBe("cancelled");
    await on.clock.advance("1d");
    expect(await on.hf.drain()).toBe(0);
  });

  it("report no wait for a worker when they go on", async () => {
    const on = await run(({ sleep }) => sleep("long", "1d"));
    const completed = eventsOf(on.hf, "completed");
    await on.clock.advance("2d");
    await on.hf.drain();
    expect(completed).toMatchObject([{ waitMs: 0 }]);
  });

  it("store log lines and progress before they park", async () => {
    const on = await run(async ({ sleep, log, progress }) => {
      log("going to sleep");
      progress(0.5, "half");
      await sleep("long", "1d");
    });
    expect(await on.job(on.id)).toMatchObject({ log: [{ line: "going to sleep" }], progress: { fraction: 0.5 } });
  });

  it("are aborted while they wait in place", async () => {
    const on = await scene({ jobs: [stepping(({ sleep }) => sleep("nap", "4s"))] });
    on.hf.work();
    const { id } = await on.hf.enqueueNamed("stepping");
    await on.clock.settle();
    await on.hf.cancel(id);
    await on.clock.settle();
    expect(await on.job(id)).toMatchObject({ state: "cancelled" });
  });
});
