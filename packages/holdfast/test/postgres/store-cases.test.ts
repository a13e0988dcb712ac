import { openPostgres } from "#src/stores/postgres/open.js";
import { payloadCases, retryCases, runnerCases, type OpenStore } from "../engine/store-cases.js";
import { stepStoreCases } from "../engine/step-cases.js";
import { addressOf, ownSchema } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

const open: OpenStore = async (clock) => {
  const store = openPostgres(addressOf(server.url(), ownSchema(server)), { clock });
  await store.migrate();
  return store;
};

retryCases("PostgreSQL", open);
runnerCases("PostgreSQL", open);
stepStoreCases("PostgreSQL", open);
payloadCases("PostgreSQL", open);
