import { type Db, type Runner, unnamed } from "../connection/db.js";
import { sqlState } from "../connection/errors.js";
import { ok, problem, warning, type DoctorCheck, type Finding, type Patient } from "./finding.js";
import { lookAtPrepared, lookAtSlots, lookAtTransactions } from "./horizon.js";
import { lookAtCounts, lookAtLanes, lookAtOverdue, lookAtPaused } from "./queues.js";
import { lookAtClock, lookAtConnections, lookAtDurability, lookAtRights, lookAtVersion } from "./server.js";
import { judgeVersion, lookAtShape, versionOf } from "./shape.js";
import { lookAtAutovacuum, lookAtDeadRows, lookAtInvalidIndexes } from "./tables.js";

type Look = (runner: Runner, patient: Patient) => Promise<Finding[]>;

const OF_THE_SERVER: readonly [DoctorCheck, Look][] = [
  ["server version", lookAtVersion],
  ["durability", lookAtDurability],
  ["clock", lookAtClock],
  ["connections", lookAtConnections],
  ["rights", lookAtRights],
  ["open transactions", lookAtTransactions],
  ["prepared transactions", lookAtPrepared],
  ["replication slots", lookAtSlots],
];
const OF_THE_TABLES: readonly [DoctorCheck, Look][] = [
  ["invalid indexes", lookAtInvalidIndexes],
  ["autovacuum", lookAtAutovacuum],
  ["dead rows", lookAtDeadRows],
  ["counts", lookAtCounts],
  ["lanes", lookAtLanes],
  ["paused queues", lookAtPaused],
  ["overdue jobs", lookAtOverdue],
];

/** doctor: looks at all that is known to hold jobs up or to endanger them. What it may not look at it says. */
export async function examine(db: Db, patient: Patient): Promise<Finding[]> {
  try {
    await db.run(unnamed("SELECT 1"), []);
  } catch (error) {
    return [problem("connection", (error as Error).message, "See that the server runs and that the address is right.")];
  }
  /** Each look for itself, so that one that fails spoils no other, and none waits for a lock for long. */
  const look = (check: DoctorCheck, work: Look): Promise<Finding[]> =>
    orWhyNot(check, () =>
      db.transaction(async (runner) => {
        await runner.script("SET LOCAL lock_timeout = '2s'; SET LOCAL statement_timeout = '15s'");
        return work(runner, patient);
      }),
    );

  const findings = [ok("connection", "the server answers")];
  for (const [check, work] of OF_THE_SERVER) findings.push(...(await look(check, work)));
  let version: number | null = null;
  const judged = await look("schema version", async (runner) => {
    version = await versionOf(runner, patient);
    return [judgeVersion(version)];
  });
  findings.push(...judged);
  // A schema of another version differs from this one's as it should.
  if (judged.every(({ level }) => level === "ok")) {
    findings.push(...(await orWhyNot("schema shape", () => lookAtShape(db, patient))));
  }
  if (version !== null) for (const [check, work] of OF_THE_TABLES) findings.push(...(await look(check, work)));
  return findings;
}

async function orWhyNot(check: DoctorCheck, work: () => Promise<Finding[]>): Promise<Finding[]> {
  try {
    return await work();
  } catch (error) {
    const found = `could not be looked at: ${(error as Error).message}`;
    return [warning(check, found, ADVICE[sqlState((error as Error).cause)] ?? "Mend that, then look again.")];
  }
}

const ADVICE: Readonly<Partial<Record<string, string>>> = {
  "42501": "Run it as a role that may read the tables of Holdfast.",
  "55P03": "Somebody holds a lock on the table: SELECT pid, query FROM pg_catalog.pg_stat_activity shows who.",
  "57014": "It took too long: look at the load of the server, then again.",
};
