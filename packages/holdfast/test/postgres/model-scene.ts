import { describe, it } from "vitest";
import { openPostgres } from "#src/stores/postgres/open.js";
import { compareWithModel } from "#src/testing/model-run.js";
import { schemaPool } from "./schema-pool.js";
import { postgresServer } from "./server.js";

/** Compares stores on PostgreSQL with the reference model. */
export function comparesWithModel({ runs }: { runs: number }): void {
  const server = postgresServer();
  const pool = schemaPool(server);
  describe("PostgreSQL", () => {
    it("matches the reference model", { timeout: 60_000 + 5_000 * runs }, async () => {
      await compareWithModel(
        async (clock) => {
          const schema = await pool.acquire();
          const address = `${server.url()}?schema=${schema}`;
          return {
            store: openPostgres(address, { clock, notify: false }),
            address,
            again: async () => openPostgres(address, { clock, notify: false }),
            dispose: () => pool.release(schema),
          };
        },
        { runs, seed: process.env["HOLDFAST_SEED"] },
      );
    });
  });
}
