import { describe, it } from "vitest";
import { openPostgres } from "#src/stores/postgres/open.js";
import { compareWithModel } from "#src/testing/model-run.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

describe("PostgreSQL", () => {
  it("cannot be told from the reference model", { timeout: 240_000 }, async () => {
    await compareWithModel(
      async (clock) => {
        const schema = server.newSchema();
        const address = `${server.url()}?schema=${schema}`;
        const store = openPostgres(address, { clock, notify: false });
        await store.migrate();
        return {
          store,
          address,
          again: async () => openPostgres(address, { clock, notify: false }),
          dispose: async () => void (await server.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)),
        };
      },
      { runs: 40, seed: process.env["HOLDFAST_SEED"] },
    );
  });
});
