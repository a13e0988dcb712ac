import type { Clock } from "../clock.js";
import { systemClock } from "../clock.js";
import { storeKindOf } from "../store-address.js";
import type { Store } from "../store.js";

export interface OpenStoreOptions {
  clock?: Clock;
  /** A file of SQLite is used as it is, and none is made. */
  mustExist?: boolean;
}

/** Opens a store by URL. Drivers are loaded on demand, so that nobody installs a database they do not use. */
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
