import { postgres } from "holdfast/postgres";
import type { ClaimedJob, Store } from "holdfast/store";
import type pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { add, claim, claimOne, finish, newJobs, settleOne } from "#src/testing/exercise-store/builders.js";
import {
  childOf,
  DAY,
  eventOf,
  keepStep,
  onlyStep,
  park,
  parkOutcome,
  stepOf,
  stepsOf,
  waitFor,
} from "#src/testing/exercise-store/step-builders.js";
import { openScene, type Scene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const CALLERS = 8;

// Each race also runs in the obvious wrong way, which must lose something: so the race is really run.

function stores({ address }: Scene, count: number): Store[] {
  return Array.from({ length: count }, () => {
    const store = postgres(address, { notify: false, connections: 2 });
    onTestFinished(() => store.close());
    return store;
  });
}

/** A caller with a connection of its own. */
interface Caller {
  store: Store;
  client: pg.Client;
}
async function callers(scene: Scene): Promise<Caller[]> {
  return Promise.all(stores(scene, CALLERS).map(async (store) => ({ store, client: (await scene.session()).client })));
}

describe("a step of an old lease", { timeout: 120_000 }, () => {
  /** How many steps were committed after a newer claim had read the steps of its job. */
  async function committedLate(
    save: (caller: Caller, old: ClaimedJob, name: string, schema: string) => Promise<unknown>,
  ): Promise<number> {
    const scene = await openScene(server);
    let late = 0;
    await Promise.all(
      (await callers(scene)).map(async (caller, at) => {
        const [claimer] = stores(scene, 1) as [Store];
        const queue = `race ${at}`;
        const queues = [queue];
        const id = await add(caller.store, { queue });
        let lease = await claimOne(caller.store, { queues, leaseMs: 1 });
        for (let round = 0; round < 250; round++) {
          const old = lease;
          const saving = (async () => {
            for (let n = 0; n < 3; n++) await save(caller, old, `${round} ${n}`, scene.schema);
          })();
          let read: number | null = null;
          while (read === null) {
            const [next] = await claim(claimer, { queues, leaseMs: 1 });
            if (next === undefined) continue;
            lease = next;
            read = (await stepsOf(claimer, id)).filter(({ fence }) => fence < next.fence).length;
          }
          await saving;
          const after = (await stepsOf(claimer, id)).filter(({ fence }) => fence < lease.fence).length;
          late += after - read;
        }
      }),
    );
    return late;
  }

  it("is never committed after a newer claim", async () => {
    expect(await committedLate(({ store }, old, name) => store.saveSteps([stepOf(old, name)]))).toBe(0);
  });

  it("would be without the lock", async () => {
    const late = await committedLate(({ client }, old, name, schema) =>
      client.query(
        `INSERT INTO ${schema}.steps (job, name, member, place, kind, state, fence, tries, wake, started_at, ended_at)
         SELECT id, $3, 0, 0, 'run', 'done', fence, 0, 'last', 0, 0 FROM ${schema}.live
         WHERE id = $1 AND fence = $2 AND state IN ('claimed', 'running')`,
        [old.id, old.fence, name],
      ),
    );
    expect(late).toBeGreaterThan(0);
  });
});

describe("an event and a wait at once", { timeout: 120_000 }, () => {
  /** How many jobs were not woken. `wait`: stores the wait and returns whether it has ended. */
  async function lost(
    wait: (caller: Caller, lease: ClaimedJob, event: string, schema: string) => Promise<boolean>,
  ): Promise<number> {
    const scene = await openScene(server);
    let missed = 0;
    await Promise.all(
      (await callers(scene)).map(async (caller, at) => {
        const [emitter] = stores(scene, 1) as [Store];
        const queue = `race ${at}`;
        const queues = [queue];
        for (let round = 0; round < 250; round++) {
          const event = `${at} ${round}`;
          await add(caller.store, { queue });
          const lease = await claimOne(caller.store, { queues, leaseMs: DAY });
          const waiting = (async () => {
            if (await wait(caller, lease, event, scene.schema)) return;
            await settleOne(caller.store, parkOutcome(lease));
          })();
          await Promise.all([waiting, emitter.emit([eventOf(event)])]);
          const [woken] = await claim(caller.store, { queues });
          const hasEnded = (await onlyStep(caller.store, lease.id)).state === "done";
          const isLeased = (await caller.store.extend([lease], DAY))[0] === "kept";
          if (!hasEnded || (woken === undefined && !isLeased)) missed++;
          else await finish(caller.store, woken ?? lease);
        }
      }),
    );
    return missed;
  }

  it("lose no wake-up", async () => {
    const missed = await lost(
      async ({ store }, lease, event) => (await keepStep(store, waitFor(lease, event))).state === "done",
    );
    expect(missed).toBe(0);
  });

  it("would if the wait looked before it is stored", async () => {
    const missed = await lost(async ({ client }, lease, event, schema) => {
      const { rows } = await client.query(`SELECT 1 FROM ${schema}.events WHERE name = $1`, [event]);
      await client.query(
        `INSERT INTO ${schema}.steps (job, name, member, place, kind, state, fence, tries, topic, wake, started_at, ended_at)
         VALUES ($1, 'w', 0, 0, 'event', $3, $2, 0, $4, 'last', 0, NULL)`,
        [lease.id, lease.fence, rows.length > 0 ? "done" : "waiting", `event:${event}`],
      );
      return rows.length > 0;
    });
    expect(missed).toBeGreaterThan(0);
  });
});

describe("the last children of a set at once", { timeout: 120_000 }, () => {
  const SETS = 12;
  const CHILDREN = 160;

  /** How many parents were left parked. `end`: ends some children. */
  async function leftBehind(
    end: (caller: Caller, children: ClaimedJob[], schema: string) => Promise<unknown>,
  ): Promise<number> {
    const scene = await openScene(server);
    const { store } = scene;
    const all = await callers(scene);
    let left = 0;
    for (let set = 0; set < SETS; set++) {
      await add(store, { queue: "parents" });
      const parent = await claimOne(store, { queues: ["parents"], leaseMs: DAY });
      const children = newJobs(CHILDREN, { queue: "children", awaited: true, parent: parent.id });
      await store.saveSteps(children.map((child, member) => childOf(parent, child, { name: "all", member })));
      await park(store, parent);
      await Promise.all(
        all.map(async (caller) => {
          for (;;) {
            const jobs = await claim(caller.store, { queues: ["children"], limit: 5, leaseMs: DAY });
            if (jobs.length === 0) return;
            await end(caller, jobs, scene.schema);
          }
        }),
      );
      const states = new Set((await stepsOf(store, parent.id)).map(({ state }) => state));
      expect([...states]).toEqual(["done"]);
      const [woken] = await claim(store, { queues: ["parents"] });
      if (woken === undefined) left++;
      else await finish(store, woken);
      await store.remove([parent.id]);
    }
    return left;
  }

  it("wake their parent", async () => {
    expect(await leftBehind(({ store }, jobs) => Promise.all(jobs.map((job) => finish(store, job))))).toBe(0);
  });

  it("would not if they asked for the last one in the same statement", async () => {
    const left = await leftBehind(async ({ client }, jobs, schema) => {
      for (const { id } of jobs) {
        await client.query("BEGIN");
        await client.query(
          `WITH gone AS (DELETE FROM ${schema}.live WHERE id = $1),
           ended AS (UPDATE ${schema}.steps SET state = 'done' WHERE topic = 'job:' || $1::text AND state = 'waiting' RETURNING job, name)
           UPDATE ${schema}.live SET due_at = 0 FROM ended e WHERE id = e.job AND NOT EXISTS (
             SELECT 1 FROM ${schema}.steps s WHERE s.job = e.job AND s.name = e.name AND s.state = 'waiting' AND s.topic <> 'job:' || $1::text)`,
          [id],
        );
        await client.query("COMMIT");
      }
    });
    expect(left).toBeGreaterThan(0);
  });
});
