import type { Holdfast, Lease, RunContext } from "holdfast";
import { LeaseLostError } from "holdfast";
import { beforeEach, expect, it } from "vitest";
import { describeDatabases, type PackDatabase } from "../../holdfast/test/pack/scene.js";
import { effect, type ProcessInput, type StripePack } from "../dist/index.js";
import { effects, invoicePaid, openScene, record, signed, type Scene, type TestEffect } from "./scene.js";

describeDatabases((open) => {
  let given: PackDatabase;
  beforeEach(async () => (given = await open()));

  async function outputs({ hf }: Scene): Promise<unknown[]> {
    return (await hf.list({ order: "oldest" })).jobs.map(({ state, output }) =>
      state === "completed" ? output : state,
    );
  }

  it("E-08 the same event 20 times at once is one job with one effect", async () => {
    const scene = await openScene(given);
    const received = { status: 200, body: { received: true } };
    const event = invoicePaid();
    const sent = await Promise.all(Array.from({ length: 20 }, () => scene.send(signed(event))));
    expect(sent).toEqual(Array.from({ length: 20 }, () => received));
    expect(await scene.hf.drain()).toBe(1);
    expect(await scene.send(signed(event))).toEqual(received);
    expect(await scene.hf.drain()).toBe(0);
    expect(await effects(given)).toEqual([event.id]);
  });

  it("E-08 an effect that throws twice happens once", async () => {
    let calls = 0;
    const flaky: TestEffect = async (event, context) => {
      const inserted = record(event, context);
      if (++calls < 3) throw new Error("not yet");
      return inserted;
    };
    // An async function would return a promise, which SQLite refuses.
    const flakySync: TestEffect = (event, context) => {
      record(event, context);
      if (++calls < 3) throw new Error("not yet");
    };
    const scene = await openScene(given, { on: { "invoice.paid": given.dialect === "sqlite" ? flakySync : flaky } });
    const event = invoicePaid();
    await scene.send(signed(event));
    await scene.hf.drain();
    expect(calls).toBe(3);
    expect(await effects(given)).toEqual([event.id]);
    expect(await outputs(scene)).toEqual([{ processed: true }]);
  });

  it("E-08 an effect happens once, although its completion was lost", async () => {
    const scene = await openScene(given);
    const event = invoicePaid();
    await scene.send(signed(event));
    const first = await claimExpired(scene.hf);
    const second = await claimNow(scene.hf);
    // The first worker applies the effect, and learns in the same transaction that its lease is lost.
    await expect(runAs(first, scene)).rejects.toThrow(LeaseLostError);
    expect(await effects(given)).toEqual([]);
    await runAs(second, scene);
    expect(await effects(given)).toEqual([event.id]);
    await expect(runAs(first, scene)).rejects.toThrow(LeaseLostError);
    expect(await effects(given)).toEqual([event.id]);
    expect(await outputs(scene)).toEqual([{ processed: true }]);
  });

  it("E-08 a second job of a processed event is a duplicate", async () => {
    const scene = await openScene(given);
    const event = invoicePaid();
    await scene.send(signed(event));
    const input = { eventId: event.id, eventType: event.type, payload: { ...event } };
    await Promise.all(Array.from({ length: 5 }, () => scene.hf.enqueue(scene.pack.process, input)));
    await scene.hf.drain({ concurrency: 4 });
    expect(await effects(given)).toEqual([event.id]);
    const all = await outputs(scene);
    expect(all.filter((output) => (output as { processed?: true }).processed)).toHaveLength(1);
    expect(all.filter((output) => (output as { duplicate?: true }).duplicate)).toHaveLength(5);
  });

  it("ignores types without an effect, whatever their name", async () => {
    const scene = await openScene(given);
    for (const type of ["charge.refunded", "constructor", "__proto__", "toString"]) {
      await scene.send(signed(invoicePaid({ type })));
    }
    await scene.hf.drain();
    expect(await outputs(scene)).toEqual([{ ignored: true }, { ignored: true }, { ignored: true }, { ignored: true }]);
    expect(await given.query("SELECT id FROM stripe_events WHERE processed_at IS NOT NULL")).toEqual([]);
  });

  it("E-08 reads events that are too large for an input from the table", async () => {
    const scene = await openScene(given);
    const large = invoicePaid({ customer: "x".repeat(900_000) });
    // No input may have this character, and no text of PostgreSQL.
    const strange = invoicePaid({ customer: "a\0b" });
    for (const event of [large, strange]) expect((await scene.send(signed(event))).status).toBe(200);
    expect((await scene.hf.list()).jobs.map(({ input }) => (input as ProcessInput).payload)).toEqual([null, null]);
    const customers: unknown[] = [];
    const reading = await openScene(given, {
      on: { "invoice.paid": (event) => void customers.push(event.data.object["customer"]) },
    });
    await reading.hf.drain();
    expect(
      customers
        .map(String)
        .map(({ length }) => length)
        .toSorted((a, b) => a - b),
    ).toEqual([3, 900_000]);
  });

  it("applies nothing of an effect that fails in its middle", async () => {
    const scene = await openScene(given, {
      on: {
        "invoice.paid": (event, context) => {
          const inserted = record(event, context);
          const fail = (): never => {
            throw new Error("the second half failed");
          };
          return inserted instanceof Promise ? inserted.then(fail) : fail();
        },
      },
    });
    await scene.send(signed(invoicePaid()));
    await scene.hf.drain();
    expect(await effects(given)).toEqual([]);
    expect(await outputs(scene)).toEqual(["dead"]);
    expect(await given.query("SELECT processed_at FROM stripe_events")).toEqual([{ processed_at: null }]);
  });

  it("an effect that enqueues does so in its transaction", async () => {
    let calls = 0;
    const failOnce = (): void => {
      if (++calls === 1) throw new Error("not yet");
    };
    const scene = await openScene(given, {
      on: {
        "invoice.paid": (event, { tx, hf }) => {
          const enqueued = hf.enqueueNamed("mail.receipt", { event: event.id }, { tx });
          // On SQLite the job is written now, and a promise must not be returned.
          return given.dialect === "sqlite" ? failOnce() : enqueued.then(failOnce);
        },
      },
    });
    await scene.send(signed(invoicePaid()));
    await scene.hf.drain();
    expect((await scene.hf.list({ type: "mail.receipt" })).jobs).toHaveLength(1);
  });

  it("asynchronous effects are refused on SQLite, and nothing of them stays", async () => {
    const scene = await openScene(given, { on: { "invoice.paid": async (event, context) => record(event, context) } });
    const event = invoicePaid();
    await scene.send(signed(event));
    await scene.hf.drain();
    const [job] = (await scene.hf.list()).jobs;
    if (given.dialect === "postgres") {
      expect(await effects(given)).toEqual([event.id]);
    } else {
      expect(job).toMatchObject({ state: "dead", attempt: 1 });
      expect(job?.error?.message).toMatch(
        /the effect of invoice.paid returned a promise; on SQLite .* effect\(\{ load, apply \}\)/,
      );
      expect(await effects(given)).toEqual([]);
    }
  });

  it("loads before the transaction, and not for a processed event", async () => {
    let loads = 0;
    const loading = effect({
      load: async () => {
        loads++;
        return Promise.resolve("from elsewhere");
      },
      apply: (
        event: Parameters<TestEffect>[0],
        { loaded, ...context }: Parameters<TestEffect>[1] & { loaded: string },
      ) => record({ ...event, id: `${event.id} ${loaded}` }, context),
    });
    const scene = await openScene(given, { on: { "invoice.paid": loading } });
    const event = invoicePaid();
    await scene.send(signed(event));
    await scene.hf.drain();
    expect(await effects(given)).toEqual([`${event.id} from elsewhere`]);
    await scene.hf.enqueue(scene.pack.process, { eventId: event.id, eventType: event.type, payload: { ...event } });
    await scene.hf.drain();
    expect(loads).toBe(1);
    expect(await outputs(scene)).toEqual([{ processed: true }, { duplicate: true }]);
  });

  it("a job without a valid event is dead at once", async () => {
    const scene = await openScene(given);
    await scene.hf.enqueue(scene.pack.process, { eventId: "evt_gone", eventType: "invoice.paid", payload: null });
    await scene.hf.enqueue(scene.pack.process, {
      eventId: "evt_x",
      eventType: "invoice.paid",
      payload: { object: "x" },
    });
    await scene.hf.drain();
    const { jobs } = await scene.hf.list({ state: "dead", order: "oldest" });
    expect(jobs.map(({ attempt, error }) => [attempt, error?.message])).toEqual([
      [1, "event evt_gone is not stored any more, and its job has no payload"],
      [1, "the payload is not an event: the body is not a Stripe event"],
    ]);
  });
});

/** A lease that has expired: another worker can claim the job. */
async function claimExpired(hf: Holdfast): Promise<Lease> {
  const [lease] = await hf.claim({ lease: 100 });
  return lease!;
}

async function claimNow(hf: Holdfast): Promise<Lease> {
  for (;;) {
    const [lease] = await hf.claim({ lease: "1m" });
    if (lease !== undefined) return lease;
  }
}

/** Runs the handler as the worker that holds, or held, this lease. */
async function runAs(
  { id, input, completeIn }: Lease,
  { hf, pack }: { hf: Holdfast; pack: StripePack },
): Promise<unknown> {
  const signal = new AbortController().signal;
  const context = { input, job: { id }, idempotencyKey: id, signal, hf, completeIn } as unknown as RunContext<never>;
  return pack.process.run(context);
}
