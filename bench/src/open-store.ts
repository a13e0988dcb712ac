import type { Store } from "holdfast";

/** Opens a store like `holdfast({ store: url })`, but returns it, so that a trial can count its calls. */
export async function openStore(url: string): Promise<Store> {
  const colon = url.indexOf(":");
  switch (url.slice(0, colon)) {
    case "sqlite": {
      const { sqlite } = await import("holdfast/sqlite");
      return sqlite(url.slice(colon + 1));
    }
    case "postgres": {
      const { postgres } = await import("holdfast/postgres");
      return postgres(url);
    }
    case "dynamodb": {
      const { dynamodb } = await import("holdfast/dynamodb");
      return dynamodb(url);
    }
    default:
      throw new Error(`the bench cannot open ${url}`);
  }
}
