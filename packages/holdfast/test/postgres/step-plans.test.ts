import { describe, expect, it } from "vitest";
import { qualify } from "#src/stores/postgres/connection/qualify.js";
import { sqlFor } from "#src/stores/postgres/connection/sql.js";
import { leaseOperations } from "#src/stores/postgres/jobs/leases.js";
import { Recorder } from "#src/stores/postgres/jobs/recorder.js";
import { add, claimOne, finish } from "#src/testing/exercise-store/builders.js";
import {
  childOf,
  eventOf,
  keepStep,
  newChild,
  park,
  stepOf,
  waitFor,
} from "#src/testing/exercise-store/step-builders.js";
import { openOnOne, openScene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

/** The texts of the statements that settle jobs without ties. */
function settling(s: string): Map<string, string> {
  const texts = new Map<string, string>();
  const sql = {
    ...sqlFor(s, "text"),
    statement: (name: string, text: string) => {
      texts.set(name, text);
      return { name, text: qualify(text) };
    },
  };
  leaseOperations(sql, new Recorder(sql));
  return texts;
}

describe("jobs without steps", () => {
  it("are settled by the same plans, with one more condition", async () => {
    const { schema, session } = await openScene(server, { isNew: true });
    const { sql } = await session();
    const planOf = async (text: string): Promise<string[]> =>
      (await sql<{ "QUERY PLAN": string }>(`EXPLAIN (GENERIC_PLAN, COSTS OFF) ${qualify(text)}`)).map(
        (row) => row["QUERY PLAN"],
      );
    const texts = settling(`"${schema}"`);
    for (const name of ["finish", "drop", "reschedule"].flatMap((each) => [each, `${each}_recorded`])) {
      const text = texts.get(name) ?? "";
      const plan = await planOf(text);
      const without = await planOf(text.replace(" AND ties IS NULL", ""));
      expect([name, ...plan.map((line) => line.replace(/\(ties IS NULL\) AND /, ""))]).toEqual([name, ...without]);
      expect(plan.filter((line) => line.includes("ties"))).toHaveLength(1);
    }
  });

  it("have no row in the new tables, and no ties", async () => {
    const { store, sql } = await openScene(server);
    await add(store);
    await add(store, { user: "ada", tags: ["t"] });
    for (const to of ["failed", "completed"] as const) await finish(store, await claimOne(store), to);
    expect(await sql("SELECT ties FROM $s.live UNION ALL SELECT ties FROM $s.archive WHERE ties IS NOT NULL")).toEqual([
      { ties: null },
    ]);
    expect(await sql("SELECT 1 FROM $s.wakes UNION ALL SELECT 1 FROM $s.steps")).toEqual([]);
  });
});

describe("statements of steps", () => {
  it("are planned once, and read steps by an index", async () => {
    const { store, pool } = await openOnOne(server);
    for (let at = 0; at < 12; at++) {
      await add(store, { queue: "q" });
      const lease = await claimOne(store, { queues: ["q"] });
      await keepStep(store, stepOf(lease, "first"));
      await keepStep(store, waitFor(lease, `paid ${at}`));
      await park(store, lease);
      await store.emit([eventOf(`paid ${at}`)]);
      const again = await claimOne(store, { queues: ["q"] });
      await keepStep(store, childOf(again, newChild({ parent: again.id })));
      await finish(store, await claimOne(store, { queues: ["children"] }));
      await finish(store, again);
    }
    const { rows } = await pool.query<{ name: string; text: string; custom: string }>(
      `SELECT name, statement AS text, custom_plans AS custom FROM pg_prepared_statements
       WHERE custom_plans + generic_plans >= 12 AND statement ~ 'steps|wakes|events'`,
    );
    expect(rows.length).toBeGreaterThanOrEqual(6);
    expect(rows.filter(({ custom }) => Number(custom) > 5).map(({ name }) => name)).toEqual([]);
    for (const { name, text } of rows) {
      const explained = await pool.query<{ "QUERY PLAN": string }>(`EXPLAIN (GENERIC_PLAN, COSTS OFF) ${text}`);
      const scans = explained.rows.map((row) => row["QUERY PLAN"]).filter((line) => line.includes("Seq Scan"));
      expect([name, ...scans]).toEqual([name]);
    }
  });
});
