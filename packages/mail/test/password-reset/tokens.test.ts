import type Sqlite from "better-sqlite3";
import { database, type Steps } from "holdfast/pack";
import type pg from "pg";
import { beforeEach, expect, it } from "vitest";
import { describeDatabases, type PackDatabase } from "../../../holdfast/test/pack/scene.js";
import { ADA, resetScene } from "./reset-scene.js";

describeDatabases((open) => {
  let given: PackDatabase;
  beforeEach(async () => (given = await open()));

  it("E-09 a token works once, and takes the user's others with it", async () => {
    const { ask, deliver, reset, clock } = await resetScene(given);
    await ask("ada@example.com");
    const first = await deliver();
    await clock.advance("1m");
    await ask("ada@example.com");
    const second = await deliver();
    expect(await reset.consume(`${first}x`)).toBeNull();
    expect(await reset.consume("")).toBeNull();
    const results = await Promise.all(Array.from({ length: 10 }, () => reset.consume(second)));
    expect(results.filter((user) => user !== null)).toEqual([ADA.id]);
    expect(await reset.consume(first)).toBeNull();
  });

  it("E-09 of a user's tokens at the same time, one works", async () => {
    const { ask, deliver, reset } = await resetScene(given);
    const tokens: string[] = [];
    for (let n = 0; n < 4; n++) {
      await ask("ada@example.com");
      tokens.push(await deliver());
    }
    const results = await Promise.all([...tokens, ...tokens].map((token) => reset.consume(token)));
    expect(results.filter((user) => user !== null)).toEqual([ADA.id]);
    expect(await given.query("SELECT hash FROM password_reset_tokens")).toEqual([]);
  });

  it("E-09 a user's tokens are revoked, alone or in the caller's transaction", async () => {
    const { ask, deliver, reset, users } = await resetScene(given);
    users.set("user-2", { id: "user-2", email: "bob@example.com" });
    await ask("bob@example.com");
    const other = await deliver();
    await ask("ada@example.com");
    const first = await deliver();
    await reset.revoke(ADA.id);
    expect(await reset.consume(first)).toBeNull();

    await ask("ada@example.com");
    const second = await deliver();
    await database(given.db).transaction(function* (tx): Steps<void> {
      yield* tx.call(() => reset.revokeIn(tx.handle, ADA.id));
    });
    expect(await reset.consume(second)).toBeNull();
    expect(await reset.consume(other)).toBe("user-2");
  });

  it("E-09 a token is used in the caller's transaction, or not at all", async () => {
    const { ask, deliver, reset } = await resetScene(given);
    await ask("ada@example.com");
    const token = await deliver();
    const use = async (end: "COMMIT" | "ROLLBACK") => {
      if (given.dialect === "sqlite") {
        const db = given.db as Sqlite.Database;
        db.exec("BEGIN");
        const user: string | null = reset.consumeIn(db, token);
        db.exec(end);
        return user;
      }
      const client = await (given.db as pg.Pool).connect();
      await client.query("BEGIN");
      const using: Promise<string | null> = reset.consumeIn(client, token);
      const user = await using;
      await client.query(end);
      client.release();
      return user;
    };
    expect(await use("ROLLBACK")).toBe(ADA.id);
    expect(await use("COMMIT")).toBe(ADA.id);
    expect(await use("COMMIT")).toBeNull();
  });
});
