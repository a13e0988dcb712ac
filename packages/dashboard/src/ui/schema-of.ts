import type { TypeResult } from "holdfast/admin";
import { api } from "../app/api.js";
import { useResource } from "../app/resource.js";

/** What the server knows of a job type; null: nothing, or not yet. Then its worker validates the input. */
export function useType(type: string): TypeResult | null {
  const { value } = useResource(`type ${type}`, async () => (type === "" ? null : api.types.get({ type }))).data;
  // Of an earlier type while the next one loads.
  return value?.type === type && value.known ? value : null;
}
