import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DriverMissingError, holdfast } from "holdfast";
import { sqlite } from "holdfast/sqlite";
import { describe, expect, it } from "vitest";
import { refuseUnsupported } from "#src/stores/sqlite/thread/driver.js";
import { packError, unpackError } from "#src/stores/sqlite/thread/errors.js";
import { copyOfThePackage, folderWithout, refusalIn } from "../without-driver.js";
import { connect, integrity, open, tempFile, tempFolder } from "./scene.js";

const NODE = Number.parseInt(process.versions.node, 10);

async function refusal(store: string): Promise<{ name: string; code: string; message: string }> {
  try {
    const hf = await holdfast({ store, logger: false });
    await hf.close();
  } catch (error) {
    const { name, code, message } = error as { name: string; code: string; message: string };
    return { name, code, message };
  }
  throw new Error(`${store} was opened`);
}

describe("opening", () => {
  it("creates the file and its folders", async () => {
    const file = join(tempFolder(), "a", "b", "jobs.db");
    const hf = await open(file);
    await hf.close();
    expect(integrity(file)).toBe("ok");
  });

  it("uses the path after sqlite: or sqlite:// unchanged", async () => {
    for (const prefix of ["sqlite:", "sqlite://"]) {
      const file = join(tempFolder(), "my jobs %20?mode=ro#x.db");
      const hf = await holdfast({ store: `${prefix}${file}`, logger: false });
      await hf.close();
      expect(integrity(file)).toBe("ok");
    }
  });

  it("refuses a file that is not a database, and leaves it unchanged", async () => {
    const file = tempFile();
    const text = "Dear diary, ".repeat(500);
    writeFileSync(file, text);
    expect(await refusal(`sqlite:${file}`)).toEqual({
      name: "StoreUnreadableError",
      code: "STORE_UNREADABLE",
      message: `${file} is not a SQLite database, or is damaged; use another file, or restore a backup`,
    });
    expect(readFileSync(file, "utf8")).toBe(text);
  });

  it("refuses a folder", async () => {
    const folder = tempFolder();
    expect(await refusal(`sqlite:${folder}`)).toEqual({
      name: "StoreUnreadableError",
      code: "STORE_UNREADABLE",
      message: `${folder} is a folder; use a file in it`,
    });
  });

  // Root may read everything, so these fail for other reasons than permissions.
  it("says why a path cannot be opened", async () => {
    const folder = tempFolder();
    writeFileSync(join(folder, "file"), "");
    symlinkSync(join(folder, "loop"), join(folder, "loop"));
    const cases: [path: string, expected: RegExp][] = [
      [join(folder, "file", "jobs.db"), /^cannot create the folder .*file: /],
      // No folder can be created there, and on Linux Node's recursive mkdir never ends.
      ["/proc/nothing/jobs.db", /^cannot create the folder .*nothing: /],
      [join(folder, "loop"), /cannot be opened as a SQLite database: .*; check the path and its permissions$/],
      [join(folder, "x".repeat(300)), /cannot be opened as a SQLite database: .*; check the path and its permissions$/],
    ];
    for (const [path, expected] of cases) {
      const { code, message } = await refusal(`sqlite:${path}`);
      expect(code).toBe("STORE_UNREADABLE");
      expect(message).toMatch(expected);
    }
  });

  it("refuses an empty path and shows an example", async () => {
    for (const store of ["sqlite:", "sqlite://"]) {
      expect(await refusal(store)).toEqual({
        name: "InvalidOptionError",
        code: "INVALID_OPTION",
        message: 'store has no file name; use "sqlite:jobs.db" or "sqlite::memory:"',
      });
    }
  });

  it("refuses an unknown store URL and lists the known ones", async () => {
    for (const store of ["mysql://localhost/jobs", "jobs.db", "", ":memory:", "SQLITE:jobs.db"]) {
      const { name, code, message } = await refusal(store);
      expect({ name, code }).toEqual({ name: "UnknownStoreError", code: "UNKNOWN_STORE" });
      expect(message).toContain(`unknown store ${JSON.stringify(store)}; use "sqlite:<file>", "sqlite::memory:"`);
    }
  });

  it("refuses invalid options", () => {
    const file = tempFile();
    expect(() => sqlite(file, { durability: "some" as "full" })).toThrow(
      'durability: "some" is not "full" or "normal"',
    );
    expect(() => sqlite(file, { busyTimeout: "soon" as "5s" })).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", field: "busyTimeout" }),
    );
  });

  it("waits for an exclusive lock, then throws StoreUnavailableError", async () => {
    const file = tempFile();
    const other = connect(file);
    other.exec("PRAGMA locking_mode = EXCLUSIVE; CREATE TABLE own (x); BEGIN EXCLUSIVE");
    const store = sqlite(file, { busyTimeout: "200ms" });
    await expect(store.migrate()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    other.exec("ROLLBACK");
    other.close();
    await store.migrate();
    await store.close();
  });
});

describe("without its driver", () => {
  it("names the package to install", async ({ skip }) => {
    const base = folderWithout("better-sqlite3");
    if (base === undefined) return skip("every temporary folder here sees a better-sqlite3");
    const folder = copyOfThePackage(base);
    expect(refusalIn(folder, `sqlite:${join(folder, "jobs.db")}`)).toEqual({
      name: "DriverMissingError",
      code: "DRIVER_MISSING",
      message: "the better-sqlite3 package could not be loaded; install it with: npm install better-sqlite3",
    });
  });

  it.each([
    [
      "Could not locate the bindings file. Tried:\n → /a/build/better_sqlite3.node\n → /b/better_sqlite3.node",
      "Could not locate the bindings file",
    ],
    [
      "The module '/a/better_sqlite3.node'\nwas compiled against a different Node.js version using\nNODE_MODULE_VERSION 115. This version of Node.js requires\nNODE_MODULE_VERSION 127.",
      "The module '/a/better_sqlite3.node' was compiled against a different Node.js version using NODE_MODULE_VERSION 115",
    ],
  ])("says how to build a missing native module: %#", (thrown, reason) => {
    const folder = copyOfThePackage(tmpdir());
    const driver = join(folder, "node_modules", "better-sqlite3");
    mkdirSync(driver, { recursive: true });
    writeFileSync(
      join(driver, "package.json"),
      JSON.stringify({ name: "better-sqlite3", version: "12.0.0", main: "index.js" }),
    );
    writeFileSync(
      join(driver, "index.js"),
      `module.exports = class { constructor() { throw new Error(${JSON.stringify(thrown)}); } };`,
    );
    expect(refusalIn(folder, `sqlite:${join(folder, "jobs.db")}`)).toEqual({
      name: "DriverMissingError",
      code: "DRIVER_MISSING",
      message:
        `better-sqlite3 is installed, but its native module cannot be loaded (${reason}); ` +
        "allow its install script, from npm 11 on with: npm install-scripts approve better-sqlite3; " +
        "then run: npm rebuild better-sqlite3",
    });
  });

  it("reports the reason as the cause, not the message again", () => {
    const missing = DriverMissingError.notInstalled("better-sqlite3", new Error("Cannot find module"));
    const { message, cause } = unpackError(packError(missing), "jobs.db");
    expect({ message, cause: (cause as Error).message }).toEqual({
      message: missing.message,
      cause: "Cannot find module",
    });
  });

  it.skipIf(NODE >= 22)("does not load a better-sqlite3 that crashes this Node", () => {
    const folder = copyOfThePackage(tmpdir());
    const driver = join(folder, "node_modules", "better-sqlite3");
    mkdirSync(driver, { recursive: true });
    const manifest = { name: "better-sqlite3", version: "13.0.3", main: "index.js" };
    writeFileSync(join(driver, "package.json"), JSON.stringify(manifest));
    writeFileSync(join(driver, "index.js"), "process.abort();");
    expect(refusalIn(folder, `sqlite:${join(folder, "jobs.db")}`)).toMatchObject({
      name: "DriverUnsupportedError",
      code: "DRIVER_UNSUPPORTED",
      message: expect.stringMatching(/^better-sqlite3 13\.0\.3 crashes on Node .+npm install better-sqlite3@12/),
    });
  });

  it.each([
    ["12.11.1", "20.20.2", true],
    ["13.0.0", "20.20.2", false],
    ["14.1.0", "21.0.0", false],
    ["13.0.3", "22.0.0", true],
    ["12.11.1", "26.1.0", true],
  ])("better-sqlite3 %s on Node %s: %s", (driver, node, isSupported) => {
    const load = (): void => refuseUnsupported(driver, node);
    if (isSupported) load();
    else expect(load).toThrow(expect.objectContaining({ code: "DRIVER_UNSUPPORTED" }));
  });

  it("throws DriverMissingError if the driver was built for another Node", () => {
    const folder = copyOfThePackage(tmpdir());
    const driver = join(folder, "node_modules", "better-sqlite3");
    mkdirSync(driver, { recursive: true });
    writeFileSync(join(driver, "package.json"), JSON.stringify({ name: "better-sqlite3", main: "index.js" }));
    writeFileSync(
      join(driver, "index.js"),
      `module.exports = class {
        constructor() {
          const message = "The module was compiled against a different Node.js version using NODE_MODULE_VERSION 99.";
          throw Object.assign(new Error(message), { code: "ERR_DLOPEN_FAILED" });
        }
      };`,
    );
    expect(refusalIn(folder, `sqlite:${join(folder, "jobs.db")}`).code).toBe("DRIVER_MISSING");
  });
});
