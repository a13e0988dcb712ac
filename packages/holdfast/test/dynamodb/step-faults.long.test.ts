import { createHash } from "node:crypto";
import type { ClaimedJob, Store } from "holdfast/store";
import { describe, expect, it } from "vitest";
import { addAll, claim, newJobs, outcomeOf } from "#src/testing/exercise-store/builders.js";
import {
  childOf,
  eventOf,
  newChild,
  parkOutcome,
  stepOf,
  stepsOf,
  waitFor,
} from "#src/testing/exercise-store/step-builders.js";
import { pollInterval } from "#src/testing/exercise-store/until.js";
import type { Proxy } from "./proxy.js";
import { openScene } from "./scene.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();

const PARENTS = 12;
const CHILDREN = 5;
const WORKERS = 3;
const LEASE = 4_000;

const FAULTS: [what: string, begin: (proxy: Proxy) => unknown][] = [
  ["30 % of the writes throttled", (proxy) => proxy.refuse("throttled", 0.3)],
  ["30 % of the writes in conflict with a transaction", (proxy) => proxy.refuse("conflict", 0.3)],
  ["10 % of the write responses lost", (proxy) => proxy.loseResponses(0.1)],
  ["indexes that lag up to 3 s", (proxy) => proxy.lag(3_000)],
];

/** Each parent has a step, waits for an event and for a set of children, and completes when all of them have ended. */
describe.each(FAULTS)("%s", (_what, begin) => {
  it("loses no wake, and no step changes its result", { timeout: 180_000 }, async () => {
    const { proxy, again, direct } = await openScene(server, { shards: 2, requests: 16, marginMs: 0 });
    const stores = Array.from({ length: WORKERS }, () => again());
    const reader = direct();
    begin(proxy);
    const parents = await addAll(stores[0] as Store, newJobs(PARENTS, { queue: "parents", maxAttempts: 100 }));
    const done = new Set<string>();
    const results = new Map<string, Set<string | null>>();
    const workers = stores.map(async (store, worker) => {
      while (done.size < PARENTS) {
        const jobs = await claim(store, { limit: 4, leaseMs: LEASE, worker: `w${worker}` }).catch(() => []);
        // What fails here is done again after the lease.
        await Promise.all(jobs.map((job) => run(store, job).catch(() => {})));
        if (jobs.length === 0) await pollInterval();
      }
    });
    const emitter = (async () => {
      for (const id of parents)
        await persist(() => (stores[0] as Store).emit([eventOf(`for ${id}`, JSON.stringify(id))]));
    })();
    const maintenance = (async () => {
      while (done.size < PARENTS) {
        await (stores[1] as Store).repairWaits(100).catch(() => {});
        await pollInterval();
      }
    })();

    async function run(store: Store, job: ClaimedJob): Promise<void> {
      if (job.queue === "children") return void (await store.settle([endOf(job)]));
      const lease = { ...job };
      for (;;) {
        const writes = [
          stepOf(lease, "once", { order: 0, value: JSON.stringify(job.fence) }),
          waitFor(lease, `for ${job.id}`, { order: 1, name: "wait" }),
          ...Array.from({ length: CHILDREN }, (_, member) => {
            const child = newChild({ id: childId(job.id, member), input: JSON.stringify(member), maxAttempts: 100 });
            return childOf(lease, child, { name: "all", member, order: 2 });
          }),
        ];
        const saved = await store.saveSteps(writes);
        if (saved.some(({ status }) => status !== "kept")) return;
        const { steps, wakes } = await store.steps(job.id);
        for (const { name, member, state, value } of steps) {
          if (state === "waiting") continue;
          const key = `${job.id} ${name} ${member}`;
          results.set(key, (results.get(key) ?? new Set()).add(value));
        }
        const outcome = steps.some(({ state }) => state === "waiting")
          ? parkOutcome(lease, { wakes })
          : outcomeOf(lease, "completed", { keepMs: 10 * 3_600_000 });
        const [settled] = await store.settle([outcome]);
        if (settled === "awake") continue;
        if (settled === "applied" && outcome.to === "completed") done.add(job.id);
        return;
      }
    }

    const stuck = setInterval(() => {
      void reader.list({ states: ["completed"], queues: ["parents"] }, { limit: 100, cursor: null }).then(
        // A response may be lost after the job was completed.
        ({ jobs }) => jobs.forEach(({ id }) => done.add(id)),
        () => {},
      );
    }, 1_000);
    await Promise.all([...workers, emitter, maintenance]).finally(() => clearInterval(stuck));
    for (const id of parents) {
      const steps = await stepsOf(reader, id);
      expect(steps.map(({ state }) => state)).toEqual(Array.from({ length: CHILDREN + 2 }, () => "done"));
      expect(steps[1]?.value).toBe(JSON.stringify(id));
      expect(steps.slice(2).map(({ value }) => value)).toEqual(
        Array.from({ length: CHILDREN }, (_, at) => `${at * 2}`),
      );
    }
    for (const [key, values] of results) expect([key, values.size]).toEqual([key, 1]);
  });
});

function endOf(job: ClaimedJob): ReturnType<typeof outcomeOf> {
  const member = Number(job.input);
  const keep = member % 2 === 0 ? { keepMs: 10 * 3_600_000 } : { keep: false, keepMs: 0 };
  return outcomeOf(job, "completed", { output: JSON.stringify(member * 2), ...keep });
}

function childId(parent: string, member: number): string {
  const hex = createHash("sha256").update(`${parent} ${member}`).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-7${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

async function persist(call: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      return void (await call());
    } catch {
      await pollInterval();
    }
  }
}
