import Database from "better-sqlite3";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JobFilter } from "#src/store.js";
import { BLOCK } from "#src/stores/list-plan.js";
import { migrate } from "#src/stores/sqlite/migrations.js";
import { prepareStore } from "#src/stores/sqlite/jobs/prepared-store.js";
import { claimRequest } from "#src/testing/exercise-store/builders.js";

const LIVE = 1_000_000;
const NOW = 1_000_000;
const BOUNDS = "rowid>? AND rowid<?";

const ran: string[] = [];
const db = new Database(":memory:", { verbose: (sql) => void ran.push(String(sql)) });

beforeAll(() => {
  migrate(db, NOW);
  db.exec(`
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${LIVE})
    INSERT INTO holdfast_jobs (id, type, queue, priority, state, user, input, attempt, max_attempts, losses, releases, fence,
      run_at, due_at, created_at, updated_at)
    SELECT 'job ' || i, CASE WHEN i % 20000 = 7 THEN 'rare' ELSE 't' || (i % 5) END, 'q' || (i % 3), i % 3 - 1,
      CASE WHEN i % 40000 = 7 THEN 'failed' ELSE 'pending' END, CASE WHEN i % 20000 = 9 THEN 'ada' END, '{}', 0, 4, 0, 0, 0,
      0, CASE WHEN i % 2 = 0 THEN ${100 * NOW} + i ELSE i END, i, i
    FROM n;
    -- Finished jobs of the rare type in every block, so that its blocks do not show where its live jobs are.
    INSERT INTO holdfast_jobs (id, type, queue, priority, state, input, attempt, max_attempts, losses, releases, fence,
      run_at, created_at, updated_at, finished_at)
    SELECT 'done ' || seq, 'rare', 'q0', 0, 'completed', '{}', 1, 4, 0, 0, 1, 0, 0, 0, 1 FROM holdfast_jobs WHERE seq % 1000 = 0;
    INSERT INTO holdfast_counts SELECT queue, type, state, count(*) FROM holdfast_jobs GROUP BY 1, 2, 3;
    INSERT INTO holdfast_ages SELECT seq / ${BLOCK}, type, min(created_at), max(created_at) FROM holdfast_jobs GROUP BY 1, 2;
    INSERT OR IGNORE INTO holdfast_ages SELECT seq / ${BLOCK}, 'rare', 0, ${LIVE} FROM holdfast_jobs GROUP BY 1;
  `);
}, 120_000);
afterAll(() => db.close());

/** The query plan steps by which a call reads jobs, without duplicates. */
function readsOf(call: () => unknown): string[] {
  ran.length = 0;
  call();
  const statements = [...new Set(ran)].filter(
    (sql) => /^\s*(SELECT|UPDATE)/.test(sql) && sql.includes("holdfast_jobs"),
  );
  const steps = statements.flatMap((sql) =>
    (db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[]).map(({ detail }) => detail),
  );
  return [...new Set(steps)].filter((step) => /^(SEARCH|SCAN) (j|holdfast_jobs)\b|TEMP B-TREE/.test(step)).toSorted();
}

function list(filter: JobFilter): { page: { id: string }[]; reads: string[] } {
  // A new one, so that its statements are prepared again.
  const { operations } = prepareStore(db);
  let page: { id: string }[] = [];
  const reads = readsOf(() => {
    const { jobs, cursor } = operations.list(NOW, filter, { limit: 50, cursor: null });
    page = jobs;
    expect(cursor === null || jobs.length === 50).toBe(true);
  });
  return { page, reads };
}

describe("with a million live jobs, an index is used for", () => {
  it("A-02 a claim", () => {
    const { operations } = prepareStore(db);
    const reads = readsOf(() => db.transaction(() => operations.claim(NOW, claimRequest({ limit: 50 })))());
    expect(reads).toContain("SEARCH holdfast_jobs USING INDEX holdfast_jobs_due (queue=? AND priority=? AND due_at<?)");
    expect(reads.filter((step) => /SCAN|TEMP/.test(step))).toEqual([]);
  });

  it("A-02 the list of a user's jobs", () => {
    const { page, reads } = list({ user: "ada" });
    expect(page).toHaveLength(50);
    expect(reads).toContain(`SEARCH j USING COVERING INDEX holdfast_jobs_user (user=? AND ${BOUNDS})`);
    expect(reads.filter((step) => /SCAN|TEMP/.test(step))).toEqual([]);
  });

  it("A-02 the list of live jobs by type and state", () => {
    const { operations } = prepareStore(db);
    db.transaction(() => operations.claim(NOW, claimRequest({ types: ["t0"], limit: 1 })))();
    const filters: [JobFilter, number][] = [
      [{ types: ["rare"], states: ["pending"] }, 25],
      [{ types: ["rare"], states: ["pending", "claimed"], queues: ["q1", "q2"] }, 16],
      [{ types: ["rare"], states: ["pending", "failed"] }, 50],
    ];
    for (const [filter, count] of filters) {
      const { page, reads } = list(filter);
      expect(page).toHaveLength(count);
      expect(reads).toContain("SEARCH j USING COVERING INDEX holdfast_jobs_due_type (queue=? AND type=?)");
      // Live jobs are counted up to a limit, and never sorted.
      expect(reads.filter((step) => /TEMP/.test(step))).toEqual([]);
    }
    // For a common type, the newest jobs make up a page.
    expect(list({ types: ["t1"], states: ["pending"] }).page).toHaveLength(50);
  });
});
