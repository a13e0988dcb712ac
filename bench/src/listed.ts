import type { JobConditions } from "holdfast/admin";

/** The jobs of the list case, as SQL for both databases: `i` counts from 1, the last is the newest. */
export interface ListedColumns {
  id: string;
  type: string;
  queue: string;
  user: string;
  state: string;
  schedule: string;
  tag: string;
  createdAt: string;
  /** Null for finished jobs. */
  dueAt: string;
}

const SECOND_MS = 1_000;
const DAY_MS = 86_400_000;

/** One job per second up to now: twenty types and a thousand users, some rare ones, and a few old ones. */
export function listedColumns(count: number, now: number): ListedColumns {
  const state = `CASE WHEN i % 50 = 0 THEN 'pending' WHEN i % 5000 = 1 THEN 'dead' WHEN i % 5000 = 3 THEN 'cancelled'
    WHEN i % 100000 = 7 THEN 'failed' WHEN i % 100000 = 9 THEN 'running' ELSE 'completed' END`;
  return {
    id: "i",
    type: `CASE WHEN i <= ${Math.ceil(count / 100)} THEN 'old' WHEN i % 50000 = 2 THEN 'rare' ELSE 't' || (i % 20) END`,
    queue: "CASE WHEN i <= 5 THEN 'tiny' WHEN i % 10 = 0 THEN 'slow' ELSE 'default' END",
    user: "CASE WHEN i % 2 = 0 THEN 'big' ELSE 'u' || (i % 1000) END",
    state,
    schedule: "CASE WHEN i % 100 = 0 THEN 'digest' END",
    tag: "CASE WHEN i % 50000 = 2 THEN 'rare' ELSE 'common' END",
    createdAt: `(${now} - (${count} - i) * ${SECOND_MS})`,
    dueAt: `CASE WHEN i % 50 = 0 THEN ${now + 9 * DAY_MS} WHEN i % 100000 = 7 AND i % 5000 <> 1 THEN ${now + 600 * SECOND_MS} WHEN i % 100000 = 9 THEN ${now + 300 * SECOND_MS} END`,
  };
}

/** The filters, by their label in the report. */
export function listedFilters(count: number, now: number): Record<string, JobConditions> {
  const at = (ms: number): string => new Date(ms).toISOString();
  const ago = (jobs: number): string => at(now - jobs * SECOND_MS);
  const [old, recent] = [ago(count - 100), ago(100)];
  return {
    "all jobs": {},
    completed: { state: ["completed"] },
    dead: { state: ["dead"] },
    pending: { state: ["pending"] },
    running: { state: ["running"] },
    failed: { state: ["failed"] },
    "several states": { state: ["dead", "cancelled", "failed"], type: ["t1", "t3"] },
    "a type": { type: ["t7"] },
    "a type, pending": { type: ["t10"], state: ["pending"] },
    "a rare type": { type: ["rare"] },
    "a type of long ago": { type: ["old"] },
    "a type of long ago, pending": { type: ["old"], state: ["pending"] },
    "a type without jobs": { type: ["nothing"] },
    "a queue": { queue: ["slow"] },
    "a queue with five old jobs": { queue: ["tiny"] },
    "a queue and a type": { queue: ["slow"], type: ["t10"] },
    "a queue without jobs": { queue: ["nowhere"] },
    "a user": { user: "u7" },
    "a user, dead": { user: "u7", state: ["dead"] },
    "a user of half the jobs, dead": { user: "big", state: ["dead"] },
    "a user of half the jobs, a rare type": { user: "big", type: ["rare"] },
    "a user of half the jobs, long ago": { user: "big", createdBefore: old },
    "a tag": { tag: "common" },
    "a rare tag": { tag: "rare" },
    "a common tag and a user": { tag: "common", user: "u7" },
    "a common tag and a user of half the jobs, dead": { tag: "common", user: "big", state: ["dead"] },
    "a rare tag and a type": { tag: "rare", type: ["t2"] },
    "a common tag and a rare type": { tag: "common", type: ["rare"] },
    "a schedule": { schedule: "digest" },
    "a schedule, dead": { schedule: "digest", state: ["dead"] },
    "the last minutes": { createdAfter: recent },
    "the last minutes of a type": { createdAfter: recent, type: ["t7"] },
    "the future": { createdAfter: at(now + DAY_MS) },
    "long ago": { createdBefore: old },
    "long ago, completed": { createdBefore: old, state: ["completed"] },
    "long ago, of a type": { createdBefore: old, type: ["t7"] },
    "long ago, pending": { createdBefore: old, state: ["pending"] },
  };
}
