import type { Database } from "better-sqlite3";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it } from "vitest";
import { systemClock } from "#src/clock.js";
import { LIMITS } from "#src/defaults.js";
import type { State } from "#src/job/state.js";
import type { Store } from "#src/store.js";
import { prepareStore } from "#src/stores/sqlite/jobs/prepared-store.js";
import { migrate } from "#src/stores/sqlite/migrations.js";
import { Transitions, unpack } from "#src/stores/sqlite/jobs/transitions.js";
import { add, addAll, claim, MINUTE, newJobs, outcomeOf, settleAll } from "#src/testing/exercise-store/builders.js";
import { Follower } from "#src/testing/exercise-store/follower.js";
import { until } from "#src/testing/exercise-store/until.js";
import { startClient } from "./child.js";
import { connect, openStore, tempFile } from "./scene.js";

const HOUR = 60 * MINUTE;
const JOBS = 50;

/** Enqueues, claims, starts and completes some jobs. */
async function drain(store: Store): Promise<void> {
  await addAll(store, newJobs(10));
  const jobs = await claim(store);
  await store.start(jobs.map((job) => ({ ...job, startedAt: 1 })));
  await settleAll(
    store,
    jobs.map((job) => outcomeOf(job, "completed")),
  );
}

/** The rows of the table of transitions, and how many it ever had. */
function recorded(db: Database): { rows: unknown; ever: unknown } {
  return {
    rows: db.prepare("SELECT count(*) FROM holdfast_transitions").pluck().get(),
    ever: db.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'holdfast_transitions'").pluck().get() ?? 0,
  };
}

describe("transitions", () => {
  it("are not written without a follower", async () => {
    const file = tempFile();
    const store = await openStore(file);
    const db = connect(file);
    await drain(store);
    await store.purgeTransitions({ before: Date.now(), limit: 100 });
    expect(recorded(db)).toEqual({ rows: 0, ever: 0 });
  });

  it("are not written after the last follower has left", async () => {
    const file = tempFile();
    const clock = fakeClock();
    const store = await openStore(file, { clock });
    const db = connect(file);
    await store.recordTransitions(MINUTE);
    await drain(store);
    const { ever } = recorded(db);
    expect(ever).toBe(40);
    await clock.advance(MINUTE);
    await drain(store);
    expect(recorded(db).ever).toBe(ever);
    // From now on a transaction need not compare times.
    await store.purgeTransitions({ before: clock.now(), limit: 100 });
    expect(db.prepare("SELECT until FROM holdfast_following").pluck().get()).toBe(0);
    await drain(store);
    expect(recorded(db)).toEqual({ rows: 0, ever });
  });

  it("of other processes are found", async () => {
    const file = tempFile();
    const store = await openStore(file);
    const follower = await Follower.start({ store, clock: systemClock }, HOUR);
    const [enqueuer, worker] = await Promise.all([startClient(file), startClient(file)]);
    worker.send({ do: "work" });
    enqueuer.send({ do: "enqueue", type: "short", count: JOBS });
    const { ids } = await enqueuer.next("enqueued");
    const states = (): Map<string, State[]> => {
      const byJob = new Map<string, State[]>();
      for (const { id, to } of follower.seen) byJob.set(id, [...(byJob.get(id) ?? []), to]);
      return byJob;
    };
    await until("every job's end", async () => {
      await follower.poll();
      return [...states().values()].filter((all) => all.at(-1) === "completed").length === JOBS;
    });
    await follower.poll();
    expect(new Set(states().keys())).toEqual(new Set(ids));
    for (const all of states().values()) {
      // A job that ends soon is not marked as started.
      expect(all.filter((to) => to !== "running")).toEqual(["pending", "claimed", "completed"]);
    }
  });

  it("of a transaction that failed are not recorded later", () => {
    const db = connect(":memory:");
    migrate(db, 0);
    const { operations, counts } = prepareStore(db);
    operations.recordTransitions(0, HOUR);
    db.exec("BEGIN");
    operations.insert(1, newJobs(3));
    db.exec("ROLLBACK");
    counts.discard();
    operations.insert(2, newJobs(1));
    counts.write(2);
    expect(recorded(db)).toEqual({ rows: 1, ever: 1 });
  });

  it("of a batch are in one row, and pages end anywhere in it", () => {
    const db = connect(":memory:");
    migrate(db, 0);
    const transitions = new Transitions(db);
    transitions.record(HOUR, 0);
    const ids = newJobs(1_200).map(({ id }) => id);
    for (const id of ids) transitions.add(id, "t", "q", "pending");
    transitions.write(1);
    expect(recorded(db)).toEqual({ rows: 3, ever: 1_200 });
    const read: string[] = [];
    for (let number = 0; number < 1_200;) {
      const page = transitions.page({ epoch: 1, number }, 70, 2);
      if (page === null) throw new Error("the cursor has expired");
      read.push(...unpack(page).transitions.map(({ id }) => id));
      expect(page.cursor).toBe(`1.${read.length}`);
      number = read.length;
    }
    expect(read).toEqual(ids);
  });

  it("of a job in one transaction keep their order", () => {
    const db = connect(":memory:");
    migrate(db, 0);
    const transitions = new Transitions(db);
    transitions.record(HOUR, 0);
    const [one, other] = newJobs(2).map(({ id }) => id) as [string, string];
    transitions.add(one, "t", "q", "claimed");
    transitions.add(other, "t", "q", "pending");
    transitions.add(other, "t", "q", "claimed");
    transitions.add(one, "u", "q", "completed");
    // Replaced by a job of the same batch, in another queue.
    transitions.add(one, "t", "a", "pending");
    transitions.add(other, "t", "b", "pending");
    transitions.add(other, "t", "a", "pending");
    transitions.write(1);
    const page = transitions.page({ epoch: 1, number: 0 }, 10, 2);
    const read = page === null ? [] : unpack(page).transitions;
    expect(read.filter(({ id }) => id === other).map(({ to, queue }) => `${to} ${queue}`)).toEqual([
      "pending q",
      "claimed q",
      "pending b",
      "pending a",
    ]);
    expect(read.filter(({ id }) => id === one).map(({ to, queue }) => `${to} ${queue}`)).toEqual([
      "claimed q",
      "completed q",
      "pending a",
    ]);
  });

  it("a page is never missing rows that are deleted meanwhile", async () => {
    const file = tempFile();
    const clock = fakeClock();
    const store = await openStore(file, { clock });
    const cursor = await store.recordTransitions(HOUR);
    await addAll(store, newJobs(4));
    const [epoch, number] = cursor.split(".").map(Number) as [number, number];
    /** Deletes two rows after the reader's nth statement. */
    const pageWithPurgeAfter = (nth: number): unknown => {
      const [db, other] = [connect(file), connect(file)];
      let statements = 0;
      const prepare = db.prepare.bind(db);
      db.prepare = ((sql: string) => {
        const statement = prepare(sql);
        const after = <Found>(found: Found): Found => {
          if (++statements === nth) new Transitions(other).purge(clock.now() + 1, 2, clock.now());
          return found;
        };
        const [get, iterate] = [statement.get.bind(statement), statement.iterate.bind(statement)];
        statement.get = (...args: unknown[]) => after(get(...args));
        statement.iterate = (...args: unknown[]) => after([...iterate(...args)]).values();
        return statement;
      }) as typeof db.prepare;
      const page = new Transitions(db).page({ epoch, number }, 10, clock.now());
      db.close();
      other.close();
      return page?.rows.length ?? null;
    };
    expect(pageWithPurgeAfter(1)).toBeNull();
  });

  it("a cursor of a newer copy of the file has expired", async () => {
    const file = tempFile();
    const store = await openStore(file);
    const cursor = await store.recordTransitions(HOUR);
    const [epoch, number] = cursor.split(".").map(Number) as [number, number];
    await add(store);
    expect((await store.transitions(cursor, 10))?.transitions).toHaveLength(1);
    expect((await store.transitions(`${epoch}.${number + 1}`, 10))?.transitions).toEqual([]);
    expect(await store.transitions(`${epoch}.${number + 2}`, 10)).toBeNull();
    expect(await store.transitions(`${epoch + 1}.${number}`, 10)).toBeNull();
  });

  it("beyond the limit are deleted, the oldest first", async () => {
    const file = tempFile();
    const store = await openStore(file);
    const cursor = await store.recordTransitions(HOUR);
    const db = connect(file);
    const extra = 25;
    db.exec(`
      WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${LIMITS.transitions + extra})
      INSERT INTO holdfast_transitions (at, job, type, queue, state) SELECT ${Date.now()}, printf('%036d', i), 't', 'q', 'pending' FROM n;
    `);
    const deleted = [];
    for (let round = 0; round < 4; round++) deleted.push(await store.purgeTransitions({ before: 0, limit: 10 }));
    expect(deleted).toEqual([10, 10, 5, 0]);
    expect(recorded(db).rows).toBe(LIMITS.transitions);
    expect(await store.transitions(cursor, 10)).toBeNull();
  });
});
