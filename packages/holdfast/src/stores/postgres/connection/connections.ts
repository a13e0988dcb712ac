import { DriverMissingError } from "../../../errors.js";
import type { PgPool } from "./db.js";
import type { PgListener } from "../notify/listener.js";

interface Driver {
  Pool: new (config: object) => PgPool;
  Client: new (config: object) => OwnClient;
}
interface OwnClient extends PgListener {
  connect(): Promise<void>;
  unref?(): void;
}

const CONNECT_MS = 10_000;
// A goodbye that nobody answers is not waited for longer than this.
const GOODBYE_MS = 500;

// An idle connection whose other end is gone is noticed by the system, instead of when it is next needed.
const KEEP_ALIVE = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 };

async function loadDriver(): Promise<Driver> {
  try {
    const module = (await import("pg")) as unknown as { default: Driver };
    return module.default;
  } catch (error) {
    throw DriverMissingError.notInstalled("pg", error);
  }
}

/** A pool of our own that is made when first used: the driver is loaded on demand. */
export function lazyPool(url: string, connections: number): PgPool {
  let made: Promise<PgPool> | null = null;
  const pool = (): Promise<PgPool> =>
    (made ??= loadDriver().then(({ Pool }) => {
      const fresh = new Pool({
        connectionString: url,
        max: connections,
        connectionTimeoutMillis: CONNECT_MS,
        application_name: "holdfast",
        // A process that only enqueues ends when it has nothing else to do.
        allowExitOnIdle: true,
        ...KEEP_ALIVE,
      });
      fresh.on?.("error", () => {});
      return fresh;
    }));
  return {
    query: async (config) => (await pool()).query(config),
    connect: async () => (await pool()).connect(),
    end: async () => {
      if (made !== null) await (await made).end();
    },
  };
}

/** A connection of its own to listen on. */
export async function listenAt(url: string): Promise<PgListener> {
  const { Client } = await loadDriver();
  const client = new Client({
    connectionString: url,
    application_name: "holdfast listener",
    connectionTimeoutMillis: CONNECT_MS,
    ...KEEP_ALIVE,
  });
  await client.connect();
  return {
    query: (config) => client.query(config),
    on: (event: never, listener: never) => client.on(event, listener),
    async end() {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, GOODBYE_MS)));
      await Promise.race([client.end(), late]);
      clearTimeout(timer);
      // If nobody answered, the process must not stay for it.
      client.unref?.();
    },
  };
}

/** One of the caller's connections to listen on. */
export async function listenOn(pool: PgPool): Promise<PgListener> {
  const client = await pool.connect();
  const listening = client as unknown as Pick<PgListener, "on">;
  return {
    query: (config) => client.query(config),
    on: (event: never, listener: never) => listening.on(event, listener),
    // A connection that listens must not go back among the others.
    end: () => client.release(true),
  };
}

/** Whether the caller's pool has more than one connection; true if it does not say. */
export function canSpareOne(pool: PgPool): boolean {
  const { max } = (pool as { options?: { max?: unknown } }).options ?? {};
  return typeof max !== "number" || max > 1;
}
