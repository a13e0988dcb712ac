import type { Database } from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { randomFrom, until } from "#src/testing/exercise-store/until.js";
import { startChild } from "./child.js";
import { connect, integrity, open, tempFile } from "./scene.js";

const SPEED = 10;
const SLOTS = 120;
const SECOND = 1_000;
const FATES = ["dies before firing", "dies after firing"] as const;

interface Made {
  slot: number;
  created: number;
  finished: number | null;
  state: string;
}

function jobsOf(db: Database, schedule: string): Made[] {
  return db
    .prepare(
      `SELECT slot, created_at AS created, finished_at AS finished, state FROM holdfast_jobs
       WHERE schedule = ? ORDER BY slot, seq`,
    )
    .all(schedule) as Made[];
}

function lastSlot(db: Database, schedule: string): number | null {
  const sql = "SELECT last_slot FROM holdfast_schedules WHERE name = ?";
  return (db.prepare(sql).pluck().get(schedule) as number | null | undefined) ?? null;
}

describe("C-12 three scheduler processes on one file, killed at random points", () => {
  it("create one job per slot, although one clock is set back", async () => {
    const file = tempFile();
    const epoch = Date.now();
    const seed = epoch % 1_000_000;
    const random = randomFrom(seed);
    const deaths: string[] = [];
    let over = false;

    /** Starts a process that dies in the middle of a firing, again and again. */
    async function restartUntilOver(): Promise<void> {
      while (!over) {
        const fate = FATES[random(2)] ?? FATES[0];
        const child = startChild("scheduler.mjs", [file, `${epoch}`, `${SPEED}`, fate, `${2 + random(12)}`]);
        const ended = await child.ended(60_000);
        if (!over) {
          expect(ended).toBe("SIGKILL");
          deaths.push(fate);
        }
      }
    }

    // Its clock is right when it defines the schedules. Then it is an hour behind, and it fires nothing.
    const behind = startChild("scheduler.mjs", [file, `${epoch}`, `${SPEED}`]);
    await behind.next("up");
    const db = connect(file, { readonly: true });
    await until("a first slot", () => lastSlot(db, "cron") !== null && lastSlot(db, "every") !== null);
    behind.send({ byMs: 3_600_000 });
    await behind.next("clock set");

    const restarts = [restartUntilOver(), restartUntilOver()];
    const first = jobsOf(db, "cron")[0]?.slot ?? Number.NaN;
    await until(
      `${SLOTS} slots (seed ${seed})`,
      () => ["cron", "every"].every((name) => (lastSlot(db, name) ?? 0) >= first + SLOTS * SECOND),
      60_000,
    );
    over = true;
    behind.kill();
    await Promise.all(restarts);
    expect(await behind.ended()).toBe("SIGKILL");

    // Shown with every failure.
    const seen = <Value>(value: Value): object => ({ seed, deaths: deaths.length, value });
    expect(seen(new Set(deaths).size)).toEqual(seen(2));
    for (const name of ["cron", "every"]) {
      const slots = jobsOf(db, name).map(({ slot }) => slot);
      const from = slots[0] ?? Number.NaN;
      const many = ((lastSlot(db, name) ?? 0) - from) / SECOND + 1;
      expect(many).toBeGreaterThanOrEqual(SLOTS);
      expect(seen(slots)).toEqual(seen(Array.from({ length: many }, (_, n) => from + n * SECOND)));
    }
    // Without overlap, each job was created after the previous one had finished.
    const alone = jobsOf(db, "alone");
    expect(alone.length).toBeGreaterThan(5);
    expect(seen(new Set(alone.map(({ slot }) => slot)).size)).toEqual(seen(alone.length));
    const early = alone.filter(
      ({ created }, index) => index > 0 && !(created >= (alone[index - 1]?.finished ?? Number.NaN)),
    );
    expect(seen(early)).toEqual(seen([]));
    expect(integrity(file)).toBe("ok");
    const hf = await open(file);
    for (const name of ["cron", "every"]) expect((await hf.schedules.get(name))?.slots).toHaveLength(20);
    const slots = (await hf.schedules.get("alone"))?.slots ?? [];
    expect(slots.some(({ reason }) => reason === "overlap")).toBe(true);
  }, 90_000);
});
