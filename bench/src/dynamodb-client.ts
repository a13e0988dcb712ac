import { DynamoDBClient } from "@aws-sdk/client-dynamodb";

/** Requests under way at a time: what Holdfast allows itself by default, and so what everybody here does. */
export const AT_ONCE = 64;

/** Table and client of an address like `dynamodb://table?region=…&endpoint=…`, the client set up as Holdfast sets up its own. */
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

/** Runs these with so many under way at a time, and answers in their order. */
export async function bounded<Given, Answer>(
  given: readonly Given[],
  atOnce: number,
  work: (each: Given) => Promise<Answer>,
): Promise<Answer[]> {
  const answers: Answer[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < given.length) {
      const at = next++;
      answers[at] = await work(given[at] as Given);
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, given.length) }, lane));
  return answers;
}
