import { ALL_QUEUES, DEFAULTS } from "../../../defaults.js";
import type { WorkerRecord } from "../../../store.js";
import { type Runner, unnamed } from "../connection/db.js";
import { NOW } from "../connection/sql.js";
import { count, countOf, levelOf, ok, problem, time, warning, type Finding, type Target } from "./finding.js";

/** With maintenance, changes are rolled up within two minutes. */
const PENDING_AFTER_MS = 600_000;
const PENDING = { warning: 1_000, problem: 100_000 };
const LANES = { warning: 200, problem: 2_000 };
const OVERDUE_MS = { warning: 300_000, problem: 3_600_000 };
const UNSERVED_MS = 60_000;

export async function checkCounts(runner: Runner, { settings: { schema: s }, time: at }: Target): Promise<Finding[]> {
  const text = `WITH ${NOW} SELECT pg_catalog.count(*)::integer FROM (
    SELECT 1 FROM ${s}.deltas WHERE at < (SELECT now FROM t) - ${PENDING_AFTER_MS} LIMIT ${PENDING.problem}) d`;
  const [row] = await runner.run(unnamed(text), [at()]);
  const left = row?.[0] as number;
  const level = levelOf(left, PENDING);
  const found = `${count(left)}${level === "problem" ? " or more" : ""} counter ${left === 1 ? "change" : "changes"} older than ${time(PENDING_AFTER_MS)} ${left === 1 ? "is" : "are"} not rolled up`;
  if (level === "ok") return [ok("counts", found)];
  const advice = "Run a worker with maintenance, or call hf.maintain() regularly. Otherwise stats become slow.";
  return [{ check: "counts", level, found, advice }];
}

export async function checkLanes(runner: Runner, { settings: { schema: s } }: Target): Promise<Finding[]> {
  const text = `SELECT pg_catalog.count(*)::integer, pg_catalog.count(DISTINCT queue)::integer FROM ${s}.lanes`;
  const [row] = await runner.run(unnamed(text), []);
  const [lanes, queues] = row as [number, number];
  const level = levelOf(lanes, LANES);
  const found = `${countOf(lanes, "lane")} of queue and priority, in ${countOf(queues, "queue")}`;
  if (level === "ok") return [ok("lanes", found)];
  const advice = "Use fewer queues and priorities: a claim scans every lane of its queues.";
  return [{ check: "lanes", level, found, advice }];
}

/** The longest overdue job of each queue: of the paused queues, or of the others. */
async function oldestDue(
  runner: Runner,
  { settings: { schema: s }, time: at }: Target,
  paused: boolean,
): Promise<{ queue: string; overdueMs: number }[]> {
  const pausedQueues = `ARRAY(SELECT queue FROM ${s}.lanes WHERE paused)`;
  const text = `WITH ${NOW} SELECT l.queue, ((SELECT now FROM t) - pg_catalog.min(d.due_at))::float8 FROM ${s}.lanes l CROSS JOIN LATERAL (
      SELECT j.due_at FROM ${s}.live j WHERE j.queue = l.queue AND j.priority = l.priority AND j.due_at <= (SELECT now FROM t)
      ORDER BY j.due_at LIMIT 1) d WHERE (l.queue = ANY (${pausedQueues}) OR '${ALL_QUEUES}' = ANY (${pausedQueues})) = $2 GROUP BY l.queue ORDER BY 2 DESC`;
  const rows = (await runner.run(unnamed(text), [at(), paused])) as unknown as [string, number][];
  return rows.map(([queue, overdueMs]) => ({ queue, overdueMs }));
}

export async function checkPaused(runner: Runner, target: Target): Promise<Finding[]> {
  const waiting = await oldestDue(runner, target, true);
  const [oldest] = waiting;
  if (oldest === undefined) return [ok("paused queues", "none with due jobs")];
  const text = `SELECT 1 FROM ${target.settings.schema}.lanes WHERE queue = '${ALL_QUEUES}' AND paused`;
  if ((await runner.run(unnamed(text), [])).length > 0) {
    const found = `all queues are paused, and the oldest job has been due for ${time(oldest.overdueMs)}`;
    return [warning("paused queues", found, "Run hf.resume() when jobs may run.")];
  }
  return waiting.map(({ queue, overdueMs }) =>
    warning(
      "paused queues",
      `the queue ${JSON.stringify(queue)} is paused, and its oldest job has been due for ${time(overdueMs)}`,
      `Run hf.resume(${JSON.stringify(queue)}) when its jobs may run.`,
    ),
  );
}

export async function checkOverdue(runner: Runner, target: Target): Promise<Finding[]> {
  const due = await oldestDue(runner, target, false);
  const text = `WITH ${NOW} SELECT record::text FROM ${target.settings.schema}.workers WHERE NOT gone AND seen_at >= (SELECT now FROM t) - ${DEFAULTS.silentWorkerMs}`;
  const rows = await runner.run(unnamed(text), [target.time()]);
  const workers = rows.map(([record]) => JSON.parse(record as string) as WorkerRecord);
  const findings = due.flatMap(({ queue, overdueMs }): Finding[] => {
    const serving = workers.filter(({ queues }) => queues === null || queues.includes(queue)).length;
    const found = `a job in the queue ${JSON.stringify(queue)} has been due for ${time(overdueMs)}, and ${serving === 0 ? "no live worker serves it" : countOf(serving, "live worker serves it", "live workers serve it")}`;
    if (serving === 0 && overdueMs >= UNSERVED_MS) {
      return [problem("overdue jobs", found, `Start a worker for the queue ${JSON.stringify(queue)}.`)];
    }
    const level = levelOf(overdueMs, OVERDUE_MS);
    const advice = "Add workers or raise their concurrency; check for hanging handlers.";
    return level === "ok" ? [] : [{ check: "overdue jobs", level, found, advice }];
  });
  return findings.length > 0 ? findings : [ok("overdue jobs", `none; ${countOf(workers.length, "live worker")}`)];
}
