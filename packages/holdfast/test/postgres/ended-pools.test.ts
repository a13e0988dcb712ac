import { job } from "holdfast";
import { postgres } from "holdfast/postgres";
import { describe, expect, it } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { openClient, ownSchema } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const mail = job({ type: "mail", run() {} });
const REFUSAL = { code: "CLOSED", message: "your pool was ended; call hf.close() first" };

describe("when the caller ends the pool before closing the client", () => {
  it.each([1, 2, 10])("both end, right after work() on %i connections", async (max) => {
    const pool = server.pool({ max });
    const hf = await openClient(postgres({ pool, schema: ownSchema(server) }), mail);
    hf.work();
    await Promise.all([pool.end(), hf.close()]);
    expect(pool.ended).toBe(true);
  });

  it("a worker releases its listening connection", async () => {
    const pool = server.pool({ max: 4 });
    const hf = await openClient(postgres({ pool, schema: ownSchema(server) }), mail);
    hf.work({ poll: "50ms" });
    await until("it to listen", async () => {
      const { rows } = await pool.query(
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND (query LIKE 'LISTEN%' OR query = 'SELECT 1')",
      );
      return rows.length > 0;
    });
    await pool.end();
    expect(pool.ended).toBe(true);
  });

  it("calls fail immediately with advice", async () => {
    const pool = server.pool();
    const hf = await openClient(postgres({ pool, schema: ownSchema(server) }), mail);
    await pool.end();
    await expect(hf.enqueue(mail)).rejects.toMatchObject(REFUSAL);
    await expect(hf.stats()).rejects.toMatchObject(REFUSAL);
  });

  it("a call that waits for a connection fails", async () => {
    const pool = server.pool({ max: 1 });
    const hf = await openClient(postgres({ pool, schema: ownSchema(server) }), mail);
    const others = await pool.connect();
    const waiting = hf.stats();
    const ending = pool.end();
    await expect(waiting).rejects.toMatchObject(REFUSAL);
    others.release();
    await ending;
  });

  it("close does not wait for a running handler's lease", async () => {
    const pool = server.pool({ max: 4 });
    let finish = (): void => {};
    const slow = job({ type: "slow", run: () => new Promise<void>((resolve) => (finish = resolve)) });
    const hf = await openClient(postgres({ pool, schema: ownSchema(server) }), slow);
    const started = new Promise((resolve) => hf.on("started", resolve));
    hf.work({ lease: "10m" });
    await hf.enqueue(slow);
    await started;
    const ending = pool.end();
    finish();
    await hf.close();
    await ending;
  });
});
