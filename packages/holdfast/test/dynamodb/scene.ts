import { holdfast, type Holdfast, type HoldfastOptions } from "holdfast";
import { dynamodb, type DynamoOptions, type DynamoStore } from "holdfast/dynamodb";
import { onTestFinished } from "vitest";
import { startProxy, type Proxy } from "./proxy.js";
import { REGION, type Server } from "./server.js";

export interface Scene {
  proxy: Proxy;
  table: string;
  /** A store that uses the proxy. */
  store: DynamoStore;
  /** Opens another such store, as another process would. */
  again: (options?: DynamoOptions) => DynamoStore;
  /** Opens a store that does not use the proxy. */
  direct: () => DynamoStore;
}

/** A new migrated table behind a proxy. All are removed when the test ends. */
export async function openScene(server: Server, options: DynamoOptions = {}): Promise<Scene> {
  const proxy = await startProxy(server.endpoint());
  const table = server.newTable();
  const open = (endpoint: string, more: DynamoOptions = {}): DynamoStore => {
    const store = dynamodb({ table, region: REGION, endpoint, ...options, ...more });
    onTestFinished(() => store.close());
    return store;
  };
  const again = (more?: DynamoOptions): DynamoStore => open(proxy.endpoint, more);
  const store = again();
  onTestFinished(() => server.drop(table));
  await store.migrate();
  return { proxy, table, store, again, direct: () => open(server.endpoint()) };
}

/** A client that is closed when the test ends. */
export async function openClient(options: HoldfastOptions): Promise<Holdfast> {
  const hf = await holdfast({ logger: false, ...options });
  onTestFinished(() => hf.close());
  return hf;
}
