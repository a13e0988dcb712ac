import { GetItemCommand } from "@aws-sdk/client-dynamodb";
import type { ClaimedJob, Store } from "holdfast/store";
import { fakeClock, type FakeClock } from "holdfast/testing";
import { expect, onTestFinished } from "vitest";
import { add, claim, claimOne, finish, LEASE_MS, SECOND } from "#src/testing/exercise-store/builders.js";
import {
  childOf,
  eventOf,
  keepStep,
  newChild,
  onlyStep,
  park,
  waitFor,
} from "#src/testing/exercise-store/step-builders.js";
import { openCrashing, type Crashing } from "./crashing.js";
import { openScene } from "./scene.js";
import type { Server } from "./server.js";

export interface CrashScene extends Crashing {
  clock: FakeClock;
  /** Another process. */
  survivor: Store;
  isEmitted(event: string): Promise<boolean>;
  /** Repairs like maintenance does within a minute of the crash. */
  repair(): Promise<number>;
}

export async function openCrashScene(server: Server): Promise<CrashScene> {
  const clock = fakeClock();
  const { table, again } = await openScene(server, { clock, shards: 2, marginMs: 0, slack: 0 });
  const survivor = again();
  const client = server.client();
  onTestFinished(() => client.destroy());
  return {
    ...openCrashing(server, table, { clock, shards: 2, marginMs: 0, slack: 0 }),
    clock,
    survivor,
    async isEmitted(event) {
      const Key = { pk: { S: `event#${event}` }, sk: { S: "event" } };
      const { Item } = await client.send(new GetItemCommand({ TableName: table, Key, ConsistentRead: true }));
      return Item?.["payload"] !== undefined;
    },
    async repair() {
      await clock.advance(10 * SECOND);
      return survivor.repairWaits(1_000);
    },
  };
}

/** Parked jobs that wait for an event. */
export async function waitersOf(store: Store, event: string, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let nth = 0; nth < count; nth++) {
    await add(store, { queue: event });
    const lease = await claimOne(store, { queues: [event] });
    await keepStep(store, waitFor(lease, event));
    await park(store, lease);
    ids.push(lease.id);
  }
  return ids;
}

/** A parked job, and its child, which is claimed. */
export async function parkedParent(
  store: Store,
  queue: string,
  child: Parameters<typeof newChild>[0] = {},
): Promise<{ parent: string; child: ClaimedJob }> {
  await add(store, { queue });
  const parent = await claimOne(store, { queues: [queue] });
  await keepStep(store, childOf(parent, newChild({ queue: `${queue} child`, ...child })));
  const claimed = await claimOne(store, { queues: [`${queue} child`] });
  await park(store, parent);
  return { parent: parent.id, child: claimed };
}

/** Its wait has ended, and it can be claimed and goes on. */
export async function assertWoken(store: Store, queue: string, ids: readonly string[], what: string): Promise<void> {
  for (const id of ids) expect((await onlyStep(store, id)).state, `crash ${what}`).not.toBe("waiting");
  const jobs = await claim(store, { queues: [queue], leaseMs: 10 * LEASE_MS });
  expect(jobs.map(({ id }) => id).toSorted(), `crash ${what}`).toEqual([...ids].toSorted());
  for (const job of jobs) await finish(store, job);
}

/**
 * Runs `work` once to count its requests, then again and again, and crashes after each of them. `check` gets a string for messages.
 */
export async function crashAfterEach(
  scene: CrashScene,
  rounds: (round: string) => Promise<{ work: () => Promise<unknown>; check: (what: string) => Promise<void> }>,
): Promise<number> {
  const first = await rounds("counted");
  await readConfig(scene);
  scene.takeCount();
  await first.work();
  const requests = scene.takeCount();
  await first.check("without a crash");
  for (let sent = 0; sent < requests; sent++) {
    const { work, check } = await rounds(`crash ${sent}`);
    await readConfig(scene);
    scene.crashAfter(sent);
    await work().catch(() => {});
    scene.crashAfter(Number.POSITIVE_INFINITY);
    await check(`after ${sent} of ${requests} requests`);
  }
  return requests;
}

/** The shared config is read once a minute. Without this, some rounds would send one request more than others. */
async function readConfig({ store, clock }: CrashScene): Promise<void> {
  await store.emit([eventOf(`read config ${clock.now()}`)]);
}
