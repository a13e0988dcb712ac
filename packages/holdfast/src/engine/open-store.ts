import type { Clock } from "../clock.js";
import { systemClock } from "../clock.js";
import { UnknownStore } from "../errors.js";
import type { Store } from "../store.js";

export interface OpenStoreOptions {
  clock?: Clock;
}

/** Opens a store by URL. Drivers are loaded on demand, so that nobody installs a database they do not use. */
export async function openStore(url: string, options: OpenStoreOptions = {}): Promise<Store> {
  const clock = options.clock ?? systemClock;
  const colon = url.indexOf(":");
  switch (url.slice(0, Math.max(0, colon))) {
    case "sqlite": {
      const { openSqlite } = await import("../stores/sqlite/open.js");
      return openSqlite(url.slice(colon + 1), { clock });
    }
    case "postgres":
    case "postgresql": {
      const { openPostgres } = await import("../stores/postgres/open.js");
      return openPostgres(url, { clock });
    }
    case "dynamodb": {
      const { openDynamo, readDynamoUrl } = await import("../stores/dynamodb/open.js");
      return openDynamo({ ...readDynamoUrl(url), clock });
    }
    default:
      throw new UnknownStore(url);
  }
}
