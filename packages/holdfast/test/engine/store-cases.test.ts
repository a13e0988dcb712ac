import { sqlite } from "holdfast/sqlite";
import { payloadCases, retryCases, runnerCases, type OpenStore } from "./store-cases.js";

const open: OpenStore = async (clock) => {
  const store = sqlite(":memory:", { clock });
  await store.migrate();
  return store;
};

retryCases("SQLite", open);
runnerCases("SQLite", open);
payloadCases("SQLite", open);
