import type { Holdfast } from "holdfast";
import { beforeEach, expect, it } from "vitest";
import type { PackDatabase } from "../../holdfast/test/pack/scene.js";
import { EventNotFoundError, stripe, type ReplayClient, type StripeClient } from "../dist/index.js";
import {
  effects,
  invoicePaid,
  openClient,
  openScene,
  packOn,
  record,
  SECRET,
  signed,
  type TestEffect,
} from "./scene.js";

/** Runs on SQLite with `npm test`, and on PostgreSQL with `npm run test:all`. */
export function replayTests(open: () => Promise<PackDatabase>): void {
  let given: PackDatabase;
  beforeEach(async () => (given = await open()));

  it("E-08 retries the dead job of an event", async () => {
    let isBroken = true;
    const breaking: TestEffect = (event, context) => {
      if (isBroken) throw new Error("broken");
      return record(event, context);
    };
    const { hf, pack, send } = await openScene(given, { on: { "invoice.paid": breaking } });
    const event = invoicePaid();
    await send(signed(event));
    await hf.drain();
    const [job] = (await hf.list()).jobs;
    expect(job?.state).toBe("dead");
    isBroken = false;
    expect(await pack.replay(hf, event.id)).toEqual({ eventId: event.id, result: "retried", jobId: job?.id });
    expect(await pack.replay(hf, event.id)).toEqual({ eventId: event.id, result: "waiting", jobId: job?.id });
    await hf.drain();
    expect(await effects(given)).toEqual([event.id]);
  });

  it("enqueues an event again whose type had no effect", async () => {
    const ignoring = await openScene(given, { on: {} });
    const event = invoicePaid();
    await ignoring.send(signed(event));
    await ignoring.hf.drain();
    const { hf, pack } = await openScene(given);
    const replays = await Promise.all([pack.replay(hf, event.id), pack.replay(hf, event.id)]);
    expect(replays.map(({ result }) => result)).toEqual(["enqueued", "enqueued"]);
    expect(replays[0]?.jobId).toBe(replays[1]?.jobId);
    expect((await pack.replay(hf, event.id)).result).toBe("waiting");
    await hf.drain();
    expect(await effects(given)).toEqual([event.id]);
  });

  it("a processed event is processed again with force only", async () => {
    const { hf, pack, send } = await openScene(given);
    const event = invoicePaid();
    await send(signed(event));
    await hf.drain();
    expect((await pack.replay(hf, event.id)).result).toBe("processed");
    expect(await hf.drain()).toBe(0);
    expect((await pack.replay(hf, event.id, { force: true })).result).toBe("enqueued");
    await hf.drain();
    expect(await effects(given)).toEqual([event.id, event.id]);
    expect((await pack.replay(hf, event.id)).result).toBe("processed");
  });

  it.each(["with", "without"])("E-08 two replays at once, %s a database, are one effect", async (how) => {
    let isBroken = true;
    const applied: string[] = [];
    const on = { "invoice.paid": ({ id }: { id: string }) => (isBroken ? fail() : void applied.push(id)) };
    const pack = how === "with" ? packOn(given, { on }) : stripe({ webhookSecrets: SECRET, on });
    const hf = await openClient(given, pack);
    await pack.install(hf);
    const event = invoicePaid();
    await pack.webhook(hf)(signed(event));
    await hf.drain();
    isBroken = false;
    // The other operator's replay runs and completes after this one has read the event.
    const late = clientThat(hf, async () => {
      expect((await pack.replay(hf, event.id)).result).toBe("retried");
      await hf.drain();
    });
    expect((await pack.replay(late, event.id)).result).toBe("processed");
    expect(await hf.drain()).toBe(0);
    expect(applied).toEqual([event.id]);
  });

  it("E-08 a replay does not repeat a job that another one has retried", async () => {
    let isBroken = true;
    const on = { "invoice.paid": ((...of) => (isBroken ? fail() : record(...of))) as TestEffect };
    const { hf, pack, send } = await openScene(given, { on });
    const event = invoicePaid();
    await send(signed(event));
    await hf.drain();
    isBroken = false;
    const late = clientThat(hf, async () => void (await pack.replay(hf, event.id)));
    expect((await pack.replay(late, event.id)).result).toBe("waiting");
    expect(await hf.drain()).toBe(1);
    expect(await effects(given)).toEqual([event.id]);
  });

  it("works after the job of the event was deleted", async () => {
    const ignoring = await openScene(given, { on: {} });
    const event = invoicePaid();
    await ignoring.send(signed(event));
    await ignoring.hf.drain();
    await ignoring.hf.purge({ state: "completed", olderThan: 0 });
    const { hf, pack } = await openScene(given);
    expect((await pack.replay(hf, event.id)).result).toBe("enqueued");
    await hf.drain();
    expect(await effects(given)).toEqual([event.id]);
  });

  it("an event that never arrived is fetched from Stripe", async () => {
    const event = invoicePaid();
    const { hf, pack } = await openScene(given, { api: apiWith(event) });
    expect((await pack.replay(hf, event.id)).result).toBe("enqueued");
    await hf.drain();
    expect(await effects(given)).toEqual([event.id]);
    await expect(pack.replay(hf, "evt_unknown")).rejects.toThrow("Stripe has none");
  });

  it("names an event that is not stored", async () => {
    const { hf, pack, send } = await openScene(given);
    await expect(pack.replay(hf, "evt_unknown")).rejects.toThrow(EventNotFoundError);
    await expect(pack.replay(hf, "evt_unknown")).rejects.toThrow(
      'no event "evt_unknown" is stored; with the option api',
    );
    await expect(pack.replay(hf, "../etc")).rejects.toThrow("eventId must be the id of an event");
    await expect(pack.replay(hf, "evt_1", { forced: true } as object)).rejects.toThrow("forced is not an option");
    const event = invoicePaid();
    await send(signed(event));
    await hf.drain();
    await given.query("DELETE FROM stripe_events");
    const withApi = packOn(given, { api: apiWith(event) });
    await expect(withApi.replay(hf, event.id)).rejects.toThrow("its row was deleted");
  });

  it("events without a database are replayed by their jobs", async () => {
    const applied: string[] = [];
    let isBroken = true;
    const on = {
      "invoice.paid": ({ id }: { id: string }) => {
        if (isBroken) throw new Error("broken");
        applied.push(id);
      },
    };
    const pack = stripe({ webhookSecrets: SECRET, on });
    const hf = await openClient(given, pack);
    const event = invoicePaid();
    await pack.webhook(hf)(signed(event));
    await hf.drain();
    isBroken = false;
    expect((await pack.replay(hf, event.id)).result).toBe("retried");
    await hf.drain();
    expect((await pack.replay(hf, event.id)).result).toBe("processed");
    expect((await pack.replay(hf, event.id, { force: true })).result).toBe("enqueued");
    await hf.drain();
    expect(applied).toEqual([event.id, event.id]);
    expect((await pack.replay(hf, event.id)).result).toBe("processed");
    await expect(pack.replay(hf, "evt_unknown")).rejects.toThrow(EventNotFoundError);
  });

  it("an event without a database and without an effect has one effect, however often it is replayed", async () => {
    const applied: string[] = [];
    const ignoring = stripe({ webhookSecrets: SECRET, on: {} });
    const hf = await openClient(given, ignoring);
    const event = invoicePaid();
    await ignoring.webhook(hf)(signed(event));
    await hf.drain();
    // A replay that has no effect either.
    expect((await ignoring.replay(hf, event.id)).result).toBe("enqueued");
    await hf.drain();
    const pack = stripe({ webhookSecrets: SECRET, on: { "invoice.paid": ({ id }) => void applied.push(id) } });
    const second = await openClient(given, pack);
    const replays = await Promise.all([pack.replay(second, event.id), pack.replay(second, event.id)]);
    expect(new Set(replays.map(({ jobId }) => jobId)).size).toBe(1);
    await second.drain();
    expect((await pack.replay(second, event.id)).result).toBe("processed");
    expect(applied).toEqual([event.id]);
  });
}

/** A client whose first retry does something else before. */
function clientThat(hf: Holdfast, before: () => Promise<void>): ReplayClient {
  let isFirst = true;
  return {
    enqueue: hf.enqueue.bind(hf),
    get: hf.get.bind(hf),
    remove: hf.remove.bind(hf),
    rerun: hf.rerun.bind(hf),
    retry: (async (id: string) => {
      if (isFirst) await before();
      isFirst = false;
      return hf.retry(id);
    }) as Holdfast["retry"],
  };
}

function fail(): never {
  throw new Error("broken");
}

function apiWith(event: { id: string }): StripeClient {
  return {
    rawRequest: (_method, path) => {
      if (path === `/v1/events/${event.id}`) return Promise.resolve(event);
      return Promise.reject(Object.assign(new Error("No such event"), { statusCode: 404, code: "resource_missing" }));
    },
  };
}
