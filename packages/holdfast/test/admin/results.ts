import { AdminError, type AdminClient, type OperationResult } from "holdfast/admin";
import { expect } from "vitest";
import { SCHEMAS } from "#src/admin/contract/schemas.js";
import type { RouteName } from "#src/admin/contract/routes.js";
import { until } from "#src/testing/exercise-store/until.js";

/** The error of a call. */
export async function errorOf(call: Promise<unknown>): Promise<AdminError> {
  const error = await call.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(AdminError);
  return error as AdminError;
}

/** Checks a result against the schema in the OpenAPI document. */
export function checked<Result>(name: RouteName, result: Result): Result {
  expect(SCHEMAS[name].result.safeParse(result).error).toBeUndefined();
  return result;
}

/** Waits until a background operation has ended. */
export async function ended(client: AdminClient, { id }: OperationResult): Promise<OperationResult> {
  let operation = await client.operations.get({ id });
  await until("the operation to end", async () => {
    operation = await client.operations.get({ id });
    return operation.state !== "running";
  });
  return checked("operations.get", operation);
}
