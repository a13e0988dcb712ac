import type { Clock } from "../clock.js";
import { systemClock } from "../clock.js";
import { storeKindOf } from "../store-address.js";
import type { Store } from "../store.js";

export interface OpenStoreOptions {
  clock?: Clock;
  /** SQLite: fail if the file does not exist, instead of creating it. */
  mustExist?: boolean;
}

/** Opens a store by URL. Drivers are loaded on demand: only the driver of the database in use has to be installed. */
export async function openStore(url: string, options: OpenStoreOptions = {}): Promise<Store> {
  const clock = options.clock ?? systemClock;
  switch (storeKindOf(url)) {
    case "sqlite": {
      const { openSqlite } = await import("../stores/sqlite/open.js");
      return openSqlite(url.slice("sqlite:".length), {
        clock,
        mustExist: options.mustExist === true,
      });
    }
    case "postgres": {
      const { openPostgres } = await import("../stores/postgres/open.js");
      return openPostgres(url, { clock });
    }
    case "dynamodb": {
      const { openDynamo } = await import("../stores/dynamodb/open.js");
      const { readDynamoUrl } = await import("../stores/dynamodb/connection/options.js");
      return openDynamo({ ...readDynamoUrl(url), clock });
    }
  }
}
