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
// How long to wait for a connection to close.
const CLOSE_MS = 500;

// The system notices that an idle connection is dead before it is next used.
const KEEP_ALIVE = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 };

async function loadDriver(): Promise<Driver> {
  try {
    const module = (await import("pg")) as unknown as { default: Driver };
    return module.default;
  } catch (error) {
    throw DriverMissingError.notInstalled("pg", error);
  }
}

/** The store's own pool, created when it is first used: the driver is loaded on demand. */
export function lazyPool(url: string, connections: number): PgPool {
  let created: Promise<PgPool> | null = null;
  const pool = (): Promise<PgPool> =>
    (created ??= loadDriver().then(({ Pool }) => {
      const opened = new Pool({
        connectionString: url,
        max: connections,
        connectionTimeoutMillis: CONNECT_MS,
        application_name: "holdfast",
        // Idle connections do not keep a process alive that only enqueues.
        allowExitOnIdle: true,
        ...KEEP_ALIVE,
      });
      opened.on?.("error", () => {});
      return opened;
    }));
  return {
    query: async (config) => (await pool()).query(config),
    connect: async () => (await pool()).connect(),
    end: async () => {
      if (created !== null) await (await created).end();
    },
  };
}

/** A separate connection to listen on. */
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
      const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, CLOSE_MS)));
      await Promise.race([client.end(), late]);
      clearTimeout(timer);
      // If the server did not respond, the connection must not keep the process alive.
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
    // A listening connection must not return to the pool.
    end: () => client.release(true),
  };
}

/** Whether the caller's pool has more than one connection; true if that is unknown. */
export function canSpareOne(pool: PgPool): boolean {
  const { max } = (pool as { options?: { max?: unknown } }).options ?? {};
  return typeof max !== "number" || max > 1;
}
