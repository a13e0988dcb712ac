import { type Db, type Runner, unnamed } from "../connection/db.js";
import { sqlState } from "../connection/errors.js";
import { ok, problem, warning, type DoctorCheck, type Finding, type Target } from "./finding.js";
import { checkPrepared, checkSlots, checkTransactions } from "./horizon.js";
import { checkCounts, checkLanes, checkOverdue, checkPaused } from "./queues.js";
import { checkClock, checkConnections, checkDurability, checkRights, checkVersion } from "./server.js";
import { judgeVersion, checkShape, versionOf } from "./shape.js";
import { checkAutovacuum, checkDeadRows, checkInvalidIndexes } from "./tables.js";

type Check = (runner: Runner, target: Target) => Promise<Finding[]>;

const SERVER_CHECKS: readonly [DoctorCheck, Check][] = [
  ["server version", checkVersion],
  ["durability", checkDurability],
  ["clock", checkClock],
  ["connections", checkConnections],
  ["rights", checkRights],
  ["open transactions", checkTransactions],
  ["prepared transactions", checkPrepared],
  ["replication slots", checkSlots],
];
const TABLE_CHECKS: readonly [DoctorCheck, Check][] = [
  ["invalid indexes", checkInvalidIndexes],
  ["autovacuum", checkAutovacuum],
  ["dead rows", checkDeadRows],
  ["counts", checkCounts],
  ["lanes", checkLanes],
  ["paused queues", checkPaused],
  ["overdue jobs", checkOverdue],
];

/** doctor: runs all checks for problems that delay or endanger jobs. A check that fails is reported. */
export async function examine(db: Db, target: Target): Promise<Finding[]> {
  try {
    await db.run(unnamed("SELECT 1"), []);
  } catch (error) {
    return [
      problem(
        "connection",
        (error as Error).message,
        "Check that the server is running and that the address is correct.",
      ),
    ];
  }
  /** Each check has its own transaction, so that a failure does not affect the others, and a short lock timeout. */
  const run = (check: DoctorCheck, work: Check): Promise<Finding[]> =>
    orWarning(check, () =>
      db.transaction(async (runner) => {
        await runner.script("SET LOCAL lock_timeout = '2s'; SET LOCAL statement_timeout = '15s'");
        return work(runner, target);
      }),
    );

  const findings = [ok("connection", "the server responds")];
  for (const [check, work] of SERVER_CHECKS) findings.push(...(await run(check, work)));
  let version: number | null = null;
  const judged = await run("schema version", async (runner) => {
    version = await versionOf(runner, target);
    return [judgeVersion(version)];
  });
  findings.push(...judged);
  // A schema of another version differs as expected.
  if (judged.every(({ level }) => level === "ok")) {
    findings.push(...(await orWarning("schema shape", () => checkShape(db, target))));
  }
  if (version !== null) for (const [check, work] of TABLE_CHECKS) findings.push(...(await run(check, work)));
  return findings;
}

async function orWarning(check: DoctorCheck, work: () => Promise<Finding[]>): Promise<Finding[]> {
  try {
    return await work();
  } catch (error) {
    const found = `the check failed: ${(error as Error).message}`;
    return [warning(check, found, ADVICE[sqlState((error as Error).cause)] ?? "Fix that, then run doctor again.")];
  }
}

const ADVICE: Readonly<Partial<Record<string, string>>> = {
  "42501": "Run doctor as a role that may read the tables of Holdfast.",
  "55P03": "Another session holds a lock on the table: SELECT pid, query FROM pg_catalog.pg_stat_activity shows it.",
  "57014": "The check timed out: check the load of the server, then run doctor again.",
};
