import { sqlite } from "holdfast/sqlite";
import { stepStoreCases } from "./step-cases.js";

stepStoreCases("SQLite", async (clock) => {
  const store = sqlite(":memory:", { clock });
  await store.migrate();
  return store;
});
