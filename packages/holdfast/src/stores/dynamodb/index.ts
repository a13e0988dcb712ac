import { openDynamo, type DynamoStore } from "./open.js";
import { readDynamoUrl, type DynamoOptions } from "./connection/options.js";

export type { DynamoStore } from "./open.js";
export type { DynamoOptions } from "./connection/options.js";
export type { DynamoClient } from "./connection/table.js";
export type { StreamState } from "./transitions/stream/table-stream.js";

/**
 * A store on a DynamoDB table, for `holdfast({ store })`.
 *
 * ```ts
 * const store = dynamodb({ client: new DynamoDBClient({ region: "eu-central-1" }), table: "jobs" });
 * const hf = await holdfast({ store, jobs: [welcome] });
 * ```
 */
export function dynamodb(url: string, options?: DynamoOptions): DynamoStore;
export function dynamodb(options: DynamoOptions): DynamoStore;
export function dynamodb(given: string | DynamoOptions, options: DynamoOptions = {}): DynamoStore {
  return openDynamo(typeof given === "string" ? { ...readDynamoUrl(given), ...options } : given);
}
