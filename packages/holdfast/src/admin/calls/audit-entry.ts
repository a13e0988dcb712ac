import type { AuditEntryDraft } from "../../engine/client/audit.js";
import type { Redactor } from "../../redact.js";
import type { Caller } from "../auth/access.js";
import type { OperationResult } from "../contract/api-types.js";
import { pathParts, ROUTES, type RouteName } from "../contract/routes.js";

/** Whether a call changes something, and so belongs into the audit log. */
export function isDeed(name: RouteName): boolean {
  return ROUTES[name].method !== "GET" && name !== "schedules.preview";
}

/** A call that was answered, as the audit log has it. */
export function deedOf(
  name: RouteName,
  caller: Caller,
  input: object,
  answer: object,
  redact: Redactor,
): AuditEntryDraft {
  const inPath = pathParts(ROUTES[name].path)[0];
  const fields = input as Record<string, unknown>;
  const made = (answer as { id?: unknown }).id;
  const operation = "looked" in answer ? (answer as OperationResult) : null;
  const target =
    inPath === undefined ? (operation === null ? made : (fields["filter"] ?? fields["ids"])) : fields[inPath];
  const given = Object.fromEntries(Object.entries(fields).filter(([field]) => field !== inPath));
  return {
    ...by(caller),
    action: name,
    target: target ?? fields["name"] ?? null,
    count: operation === null && (answer as { duplicate?: unknown }).duplicate !== true ? 1 : 0,
    detail: redact({
      ...given,
      ...(operation !== null && { operation: operation.id }),
      ...(operation === null && inPath !== undefined && typeof made === "string" && made !== target && { made }),
    }),
  };
}

/** The end of an operation. What it changed is known only then. */
export function endOf(answer: OperationResult, caller: Caller, target: object): AuditEntryDraft {
  const { action, state, changed: count, error } = answer;
  const detail = { operation: answer.id, state, ...(error !== null && { error }) };
  return { ...by(caller), action: `operation.${action}`, target, count, detail };
}

function by({ identity: { name: actor }, tokenId }: Caller): Pick<AuditEntryDraft, "actor" | "token"> {
  return { actor, ...(tokenId !== null && { token: tokenId }) };
}
