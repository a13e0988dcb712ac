import type { Store } from "../../store.js";
import type { DynamoStore, StreamState } from "../../stores/dynamodb/index.js";

const TEXTS: Readonly<Record<StreamState, string>> = {
  enabled: "The table has a stream, which hf.follow reads.",
  disabled: "The table has no stream. While jobs are followed, processes record changes in the table.",
  unsuitable: "The table has a stream without old and new images, which hf.follow cannot read.",
};

/** Whether the table has a stream, as a sentence. Null: the store is no DynamoDB table. */
export async function streamText(store: Store): Promise<string | null> {
  return "cloudFormation" in store ? TEXTS[await (store as DynamoStore).stream()] : null;
}
