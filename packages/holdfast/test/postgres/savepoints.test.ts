import { describe, expect, it, onTestFinished } from "vitest";
import { Db, type PgClient, type Statement } from "#src/stores/postgres/connection/db.js";
import { qualify } from "#src/stores/postgres/connection/qualify.js";
import { insideOf } from "#src/stores/postgres/connection/savepoints.js";
import { newJob } from "#src/testing/exercise-store/builders.js";
import { openStore } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const TIMEOUT_MS = 1_000;

/** A statement that waits until the test ends. */
async function waitingStatement(): Promise<Statement> {
  const holder = await server.client();
  onTestFinished(() => holder.end());
  const lock = Math.floor(Math.random() * 1_000_000_000);
  await holder.query("SELECT pg_advisory_lock($1)", [lock]);
  return { name: "waits", text: qualify(`SELECT pg_advisory_xact_lock(${lock})`) };
}

describe("a statement after a savepoint that times out", () => {
  it("fails its transaction and leaves a working pool", async () => {
    const pool = server.pool({ max: 1 });
    onTestFinished(() => pool.end());
    const db = new Db(pool, "here", { timeoutMs: TIMEOUT_MS });
    const waiting = await waitingStatement();
    const given = db.transaction((runner) => insideOf(runner).isolated((isolated) => isolated.run(waiting, [])));
    await expect(given).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(await db.run({ name: "works", text: qualify("SELECT 'yes'") }, [])).toEqual([["yes"]]);
  });

  it("fails a call in the caller's transaction immediately", async () => {
    const { store } = await openStore(server);
    const queries: string[] = [];
    const never = new Promise<never>(() => {});
    const query = async (text: string): Promise<{ rows: unknown[] }> => {
      if (queries.some((asked) => asked.includes("INSERT"))) return never;
      queries.push(text);
      if (text.includes("INSERT")) throw new Error("Query read timeout");
      return { rows: [] };
    };
    await expect(store.insertIn({ query }, [newJob()])).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(queries).toEqual([expect.stringMatching(/^SAVEPOINT/), expect.stringMatching(/INSERT/)]);
  });
});

describe("an enqueue in a read-only transaction", () => {
  it("is rejected, and the transaction continues", async () => {
    const { store } = await openStore(server);
    const tx = await server.client();
    onTestFinished(() => tx.end());
    await tx.query("BEGIN READ ONLY");
    await expect(store.insertIn(tx, [newJob()])).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect((await tx.query("SELECT 1 AS works")).rows).toEqual([{ works: 1 }]);
  });
});

describe("savepoints of the store's own transactions", () => {
  it("have the timeout of other statements", async () => {
    const asked: [text: string, waitMs: number | undefined][] = [];
    const client: PgClient = {
      async query({ text, query_timeout }) {
        asked.push([text, query_timeout]);
        if (text === "SELECT no") throw Object.assign(new Error("no"), { code: "23505" });
        return { rows: [] };
      },
      release() {},
    };
    const db = new Db({ ...client, connect: async () => client, end: async () => {} }, "here", {
      timeoutMs: TIMEOUT_MS,
    });
    await db.transaction(async (runner) => {
      const inside = insideOf(runner);
      await inside.isolated(async () => {});
      await inside.isolated((isolated) => isolated.run({ name: "no", text: qualify("SELECT no") }, [])).catch(() => {});
    });
    expect(asked.map(([text]) => text.split(" ")[0])).toEqual([
      "BEGIN",
      "SAVEPOINT",
      "RELEASE",
      "SAVEPOINT",
      "SELECT",
      "ROLLBACK",
      "COMMIT",
    ]);
    expect(asked.filter(([, waitMs]) => waitMs !== TIMEOUT_MS)).toEqual([]);
  });
});
