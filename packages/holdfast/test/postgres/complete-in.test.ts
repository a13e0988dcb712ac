import { postgres } from "holdfast/postgres";
import { describe, expect, it, onTestFinished } from "vitest";
import { add, claimOne, newJob, outcomeOf, stateOf } from "#src/testing/exercise-store/builders.js";
import { completingCases, type Desk } from "../engine/completing.js";
import { keepingCases } from "../engine/keeping.js";
import { openScene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

const desk = async (): Promise<Desk> => {
  const schema = server.newSchema();
  const address = `${server.url()}?schema=${schema}`;
  await server.query(`CREATE SCHEMA ${schema}; CREATE TABLE ${schema}.effects (output json)`);
  const pool = server.pool();
  onTestFinished(async () => {
    await pool.query(`DROP SCHEMA ${schema} CASCADE`);
    await pool.end();
  });
  return {
    store: address,
    async effect(context, output, end) {
      const client = await pool.connect();
      try {
        await client.query("BEGIN");
        await client.query(`INSERT INTO ${schema}.effects VALUES ($1)`, [JSON.stringify(output)]);
        await context.completeIn(client, output);
        await client.query(end === "commit" ? "COMMIT" : "ROLLBACK");
      } catch (error) {
        await client.query("ROLLBACK");
        throw error;
      } finally {
        client.release();
      }
    },
    effects: async () => Number((await pool.query(`SELECT count(*) AS n FROM ${schema}.effects`)).rows[0]?.n),
    async again() {
      const store = postgres(address);
      onTestFinished(() => store.close());
      return store;
    },
  };
};

completingCases("PostgreSQL", desk);
keepingCases("PostgreSQL", desk);

describe("completeIn without an open transaction", () => {
  it("is rejected", async () => {
    const { store, session } = await openScene(server);
    const id = await add(store);
    const lease = await claimOne(store);
    const { client } = await session();
    const completing = store.settleIn(client, outcomeOf(lease, "completed"), null);
    await expect(completing).rejects.toMatchObject({ code: "INVALID_OPTION", message: expect.stringMatching(/BEGIN/) });
    expect(await stateOf(store, id)).toBe("claimed");
  });

  it("is rejected after a concurrent ROLLBACK", async () => {
    const { store, session } = await openScene(server);
    const id = await add(store);
    const lease = await claimOne(store);
    const { client } = await session();
    await client.query("BEGIN");
    const enqueueing = Promise.resolve(store.insertIn(client, [newJob()])).then(() => client.query("ROLLBACK"));
    const completing = store.settleIn(client, outcomeOf(lease, "completed"), null);
    await expect(completing).rejects.toMatchObject({ code: "INVALID_OPTION" });
    await enqueueing;
    expect(await stateOf(store, id)).toBe("claimed");
  });
});
