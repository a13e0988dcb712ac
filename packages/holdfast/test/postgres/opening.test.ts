import { postgres } from "holdfast/postgres";
import { describe, expect, it, onTestFinished } from "vitest";
import { checkServer } from "#src/stores/postgres/connection/server-check.js";
import { newJob } from "#src/testing/exercise-store/builders.js";
import { startChild } from "../sqlite/child.js";
import { copyOfThePackage, folderWithout, refusalIn } from "../without-driver.js";
import { addressOf, openStore, ownSchema } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

it("a missing driver is reported with advice", ({ skip }) => {
  const base = folderWithout("pg");
  if (base === undefined) return skip("every temporary folder here sees a pg");
  expect(refusalIn(copyOfThePackage(base), "postgres://127.0.0.1/x")).toEqual({
    name: "DriverMissingError",
    code: "DRIVER_MISSING",
    message: "the pg package could not be loaded; install it with: npm install pg",
  });
});

it("a process that only enqueues exits by itself", async () => {
  const { store, address } = await openStore(server);
  const child = startChild("enqueue-at.mjs", [address]);
  const { id } = await child.next("enqueued");
  // An idle connection stays open for ten seconds, and must not delay the exit.
  expect(await child.ended(5_000)).toBe(0);
  expect(await store.get(id)).toMatchObject({ state: "pending", type: "hello" });
});

it("missing tables are reported with advice", async () => {
  const store = postgres(addressOf(server.url(), ownSchema(server)));
  onTestFinished(() => store.close());
  const refusal = {
    code: "STORE_UNREADABLE",
    message: expect.stringMatching(/call holdfast\(\) or store.migrate\(\) first/),
  };
  await expect(store.stats()).rejects.toMatchObject(refusal);
});

it.each(["information_schema", "pg_catalog", "pg_toast", "pg_temp", "pg_mine"])(
  "the reserved schema %s is rejected",
  (schema) => {
    const refusal = expect.objectContaining({ code: "INVALID_OPTION", field: "schema" }) as Error;
    expect(() => postgres("postgres://localhost/x", { schema })).toThrow(refusal);
    expect(() => postgres(`postgres://localhost/x?schema=${schema}`)).toThrow(refusal);
  },
);

describe("checkServer rejects", () => {
  const serverWith = (version: number, encoding: string) => ({ run: async () => [[version, encoding]] });
  it.each([
    ["an old version", 140_012, "UTF8", /is version 14; Holdfast needs 15 or later/],
    ["an encoding that cannot store every character", 180_000, "LATIN1", /LATIN1, .*ENCODING 'UTF8'/],
  ])("%s", async (_what, version, encoding, message) => {
    const refusal = { code: "STORE_UNREADABLE", message: expect.stringMatching(message) };
    await expect(checkServer(serverWith(version, encoding), "there")).rejects.toMatchObject(refusal);
  });

  it.each(["UTF8", "SQL_ASCII"])("accepts the encoding %s", async (encoding) => {
    await checkServer(serverWith(150_000, encoding), "there");
  });
});

describe("closing a store twice", () => {
  it("waits both times for calls in progress", async () => {
    const { store } = await openStore(server);
    const ended: string[] = [];
    let respond = (): void => {};
    const responded = new Promise<void>((resolve) => (respond = resolve));
    const asked = new Promise<void>((resolve) => {
      const query = async (): Promise<never> => {
        resolve();
        await responded;
        throw Object.assign(new Error("no"), { code: "25P02" });
      };
      void Promise.resolve(store.insertIn({ query }, [newJob()])).catch(() => ended.push("call"));
    });
    await asked;
    const closing = ["first", "second"].map((name) => store.close().then(() => ended.push(name)));
    setImmediate(respond);
    await Promise.all(closing);
    expect(ended[0]).toBe("call");
    expect(ended.toSorted()).toEqual(["call", "first", "second"]);
  });
});
