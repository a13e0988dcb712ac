import type { AuditEntryDraft } from "../../engine/client/audit.js";
import { pathOf } from "../../engine/client/input-condition.js";
import type { Redactor } from "../../redact.js";
import type { Caller } from "../auth/credentials.js";
import type { JobConditions, OperationResult } from "../contract/api-types.js";
import { isChange, pathParameters, ROUTE_NAMES, ROUTES, type RouteName } from "../contract/routes.js";

/** Whether a call changes something and is therefore recorded in the audit log. */
export function isAudited(name: RouteName): boolean {
  return isChange(ROUTES[name]);
}

const OPERATIONS: readonly OperationResult["action"][] = ["retry", "cancel", "delete", "update", "promote", "purge"];

/** Every action that the admin API records. Sessions, which need no role, are not recorded. */
export const API_ACTIONS: readonly string[] = [
  ...ROUTE_NAMES.filter((name) => isAudited(name) && ROUTES[name].role !== null),
  ...OPERATIONS.map((action) => `operation.${action}`),
];

/** The audit entry for a successful call. */
export function auditEntryFor(
  name: RouteName,
  caller: Caller,
  input: object,
  result: object,
  redact: Redactor,
): AuditEntryDraft {
  const inPath = pathParameters(ROUTES[name].path)[0];
  const fields = withShownFilter(input as Record<string, unknown>, redact);
  const made = (result as { id?: unknown }).id;
  const operation = "examined" in result ? (result as OperationResult) : null;
  const target =
    inPath === undefined ? (operation === null ? made : (fields["filter"] ?? fields["ids"])) : fields[inPath];
  const given = Object.fromEntries(Object.entries(fields).filter(([field]) => field !== inPath));
  return {
    ...actorOf(caller),
    action: name,
    target: target ?? fields["name"] ?? null,
    count: operation === null && hasChanged(result) ? 1 : 0,
    detail: redact({
      ...given,
      ...(operation !== null && { operation: operation.id }),
      ...(operation === null && inPath !== undefined && typeof made === "string" && made !== target && { made }),
    }),
  };
}

/** Whether a call changed something: not if the job existed, or if the key was not freed. */
function hasChanged({ duplicate, status }: { duplicate?: unknown; status?: unknown }): boolean {
  return duplicate !== true && status !== "held" && status !== "missing";
}

function withShownFilter(fields: Record<string, unknown>, redact: Redactor): Record<string, unknown> {
  const { filter } = fields as { filter?: JobConditions };
  return filter === undefined ? fields : { ...fields, filter: shownFilter(filter, redact) };
}

/** A filter as the audit log shows it: a value that it looks for at a redacted path may be the secret itself. */
export function shownFilter(filter: JobConditions, redact: Redactor): JobConditions {
  const { path, equals } = filter.input ?? {};
  if (equals === undefined) return filter;
  const names = pathOf(path);
  let shown: unknown = redact({ input: names.reduceRight((value, name) => ({ [name]: value }), equals) }).input;
  for (const name of names) {
    if (typeof shown !== "object" || shown === null) break;
    shown = (shown as Record<string, unknown>)[name];
  }
  return { ...filter, input: { ...(path !== undefined && { path }), equals: shown } };
}

/** The audit entry for the end of a background operation, when the number of changed jobs is known. Stored once, whichever server repeats it. */
export function auditEntryForEnd(
  result: OperationResult,
  { actor, tokenId, auditId }: { actor: string; tokenId: string | null; auditId: string },
  target: object,
): AuditEntryDraft {
  const { action, state, changed: count, error } = result;
  const detail = { operation: result.id, state, ...(error !== null && { error }) };
  const token = tokenId === null ? {} : { token: tokenId };
  return { id: auditId, actor, ...token, action: `operation.${action}`, target, count, detail };
}

function actorOf({ identity: { name: actor }, tokenId }: Caller): Pick<AuditEntryDraft, "actor" | "token"> {
  return { actor, ...(tokenId !== null && { token: tokenId }) };
}
