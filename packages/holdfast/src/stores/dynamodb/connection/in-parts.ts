import { waitForAll } from "../jobs/insert.js";

/** Runs `work` for each item, so many at a time. Returns the results in order. After an error, the other items of a part still end. */
export async function inParts<Given, Result>(
  items: readonly Given[],
  size: number,
  work: (item: Given) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (let from = 0; from < items.length; from += size) {
    results.push(...(await waitForAll(items.slice(from, from + size).map(work))));
  }
  return results;
}
