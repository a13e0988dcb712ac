// Loaded into the thread of a SQLite store before its own code: counts the statements that the thread executes.
import { getEnvironmentData } from "node:worker_threads";
import Database from "better-sqlite3";

const counter = getEnvironmentData("statements") as unknown as Int32Array;
const EXECUTING = ["run", "get", "all", "iterate"] as const;
type Method = (...given: unknown[]) => unknown;

function count(methods: Record<string, Method>, names: readonly string[]): void {
  for (const name of names) {
    const method = methods[name] as Method;
    methods[name] = function counted(this: unknown, ...given: unknown[]): unknown {
      Atomics.add(counter, 0, 1);
      return method.apply(this, given);
    };
  }
}

const db = new Database(":memory:");
count(Object.getPrototypeOf(db.prepare("SELECT 1")) as Record<string, Method>, EXECUTING);
count(Database.prototype as unknown as Record<string, Method>, ["exec"]);
db.close();
