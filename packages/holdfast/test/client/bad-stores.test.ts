import { existsSync } from "node:fs";
import { join } from "node:path";
import { holdfast, InvalidOptionError } from "holdfast";
import { postgres } from "holdfast/postgres";
import { sqlite } from "holdfast/sqlite";
import { describe, expect, it } from "vitest";
import { tempFolder } from "../sqlite/scene.js";
import { expectRefusal } from "./scene.js";

const HOST = "postgres://ada:s3cret@db.example/shop";

describe("postgres() refuses and names the option", () => {
  it.each<[string, unknown, string, RegExp]>([
    ["a URL that is not set", undefined, "url", /is undefined; is the environment variable set\? .*postgres\(\{ pool/],
    ["options without a pool", {}, "pool", /is missing; use postgres\("postgres:\/\/…"\) or postgres\(\{ pool \}\)/],
    ["a pool that is not set", { pool: undefined }, "pool", /is missing/],
    ["an address of SQLite", "sqlite:jobs.db", "url", /"sqlite:jobs.db" is not a postgres:\/\/ address/],
    ["an empty address", "", "url", /"" is not a postgres:\/\/ address/],
    ["a letter left out of schema", `${HOST}?shema=jobs`, "shema", /did you mean schema\?/],
    ["schema in capitals", `${HOST}?Schema=jobs`, "Schema", /did you mean schema\?/],
    ["two letters of schema changed places", `${HOST}?sslmode=require&shcema=jobs`, "shcema", /did you mean schema\?/],
  ])("%s", async (_name, given, field, says) => {
    const opening = (async () => postgres(given as string))();
    await expectRefusal(opening, { is: InvalidOptionError, code: "INVALID_OPTION", field, says });
  });

  it("no parameter that the driver knows", async () => {
    const parameters = [
      "sslmode=require&application_name=shop&options=-c%20geqo%3Doff&host=/tmp&ssl=true&schema=jobs",
      "sslrootcert=system&sslcert=a&sslkey=b&client_encoding=utf8&connect_timeout=5&keepalives=1&statement_timeout=5",
    ];
    for (const each of parameters) await postgres(`${HOST}?${each}`).close();
  });

  it.each(["a#b", "a/b", "a?b"])(
    "a password such as %s that is not percent-encoded, without printing it",
    async (password) => {
      const opening = holdfast({ store: `postgres://ada:${password}@127.0.0.1:1/shop`, logger: false });
      const error = await opening.then(
        () => null,
        (thrown: unknown) => thrown as InvalidOptionError,
      );
      expect(error).toMatchObject({ code: "INVALID_OPTION", field: "url" });
      expect(error?.message).toMatch(
        /is not a valid URL; percent-encode special characters in user and password: # is %23/,
      );
      expect(error?.message).not.toContain(password);
    },
  );
});

describe("sqlite()", () => {
  it("accepts the prefix sqlite:", async () => {
    const file = join(tempFolder(), "jobs.db");
    const store = sqlite(`sqlite:${file}`);
    await store.migrate();
    await store.close();
    expect(existsSync(file)).toBe(true);
    const memory = sqlite("sqlite::memory:");
    expect(memory.capabilities.transactions).toBe(false);
    await memory.close();
  });

  it.each<[string, unknown, RegExp]>([
    ["a file that is not set", undefined, /undefined is not a file path/],
    ["an address of PostgreSQL", HOST, /is a PostgreSQL URL; open it with postgres\(\)/],
  ])("refuses %s", async (_name, given, says) => {
    const opening = (async () => sqlite(given as string))();
    await expectRefusal(opening, { is: InvalidOptionError, code: "INVALID_OPTION", field: "file", says });
  });
});
