import { describe, it } from "vitest";
import { openStore } from "#src/engine/open-store.js";
import { exerciseStore } from "#src/testing/exercise-store/index.js";

exerciseStore(
  { describe, it },
  {
    name: "SQLite in memory",
    async create(clock) {
      const store = await openStore("sqlite::memory:", { clock });
      await store.migrate();
      return {
        store,
        address: null,
        again: () => Promise.reject(new Error("a database in memory has one handle")),
        dispose: () => Promise.resolve(),
      };
    },
  },
);
