import type { JsonSchema } from "./schema-fields.js";

/** The JSON Schema of a type's input; null: the server does not know it, and the worker validates the input. */
export async function schemaOf(_type: string): Promise<JsonSchema | null> {
  // The API has no call for it yet.
  return null;
}
