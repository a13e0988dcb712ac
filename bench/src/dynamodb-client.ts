import { DynamoDBClient } from "@aws-sdk/client-dynamodb";

/** The number of concurrent requests: the default of Holdfast, used for all baselines too. */
export const AT_ONCE = 64;

/**
 * The table and a client for a URL such as `dynamodb://table?region=…&endpoint=…`. The client has the settings that
 * Holdfast uses.
 */
export function connectDynamo(url: string): { table: string; client: DynamoDBClient } {
  const { hostname: table, searchParams } = new URL(url);
  const client = new DynamoDBClient({
    region: searchParams.get("region") ?? "",
    endpoint: searchParams.get("endpoint") ?? "",
    maxAttempts: 1,
    requestHandler: { httpAgent: { maxSockets: AT_ONCE, keepAlive: true } },
  });
  return { table, client };
}

/** Runs `work` for each value with limited concurrency. Returns the results in order. */
export async function bounded<Given, Result>(
  given: readonly Given[],
  atOnce: number,
  work: (each: Given) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < given.length) {
      const at = next++;
      results[at] = await work(given[at] as Given);
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, given.length) }, lane));
  return results;
}
