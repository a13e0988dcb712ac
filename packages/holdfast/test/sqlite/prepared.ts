import Database from "better-sqlite3";
import { beforeAll } from "vitest";
import { migrate } from "#src/stores/sqlite/migrations.js";
import { prepareStore, type PreparedStore } from "#src/stores/sqlite/jobs/prepared-store.js";

/** The store's operations on a filled database, and every statement that they prepare. */
export interface Prepared {
  readonly db: Database.Database;
  readonly statements: Set<string>;
  readonly store: () => PreparedStore;
  /** SQLite's query plan of a statement, as one line. */
  readonly planOf: (sql: string) => string;
}

/** Sets it up before the tests of this block, with or without the statistics that may change the planner's choice. */
export function preparedOn(fill: (db: Database.Database) => void, when: string, now: number): Prepared {
  const db = new Database(":memory:");
  const statements = new Set<string>();
  const prepare = db.prepare.bind(db);
  let store: PreparedStore | undefined;

  beforeAll(() => {
    migrate(db, now);
    fill(db);
    if (when === "after ANALYZE") db.exec("ANALYZE");
    db.prepare = (sql: string) => {
      statements.add(sql);
      return prepare(sql);
    };
    store = prepareStore(db);
    return () => db.close();
  });

  return {
    db,
    statements,
    store: () => store as PreparedStore,
    planOf(sql) {
      const named = Object.fromEntries([...sql.matchAll(/@(\w+)/g)].map(([, name]) => [name, 1]));
      const parameters = Array(sql.split("?").length - 1).fill(1);
      const explain = prepare(`EXPLAIN QUERY PLAN ${sql}`);
      const steps = Object.keys(named).length > 0 ? explain.all(named) : explain.all(...parameters);
      return (steps as { detail: string }[]).map(({ detail }) => detail).join("; ");
    },
  };
}
