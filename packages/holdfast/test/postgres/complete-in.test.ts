import { postgres } from "holdfast/postgres";
import { onTestFinished } from "vitest";
import { completingCases } from "../engine/completing.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

completingCases("PostgreSQL", async () => {
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
});
