import { z } from "zod";
import { OPERATION_STATES } from "../../job/stored-operation.js";
import { operation } from "../contract/operation-schema.js";
import type { OperationResult } from "../contract/api-types.js";
import type { OperationPlan, OperationSummary } from "./operation-plan.js";

/*
 * A row of another version, of a damaged store or of another program must not make the list of operations fail, and must not keep
 * the server from the operations behind it. So what is stored is checked when it is read.
 */

const PLAN = z.object({
  action: z.enum(["retry", "cancel", "delete", "update", "promote", "purge"] satisfies OperationResult["action"][]),
  // Their values are checked when the operation runs, as those of a request.
  ids: z.array(z.string()).optional(),
  filter: z.record(z.string(), z.unknown()).optional(),
  purge: z
    .object({
      state: z.enum(["completed", "dead", "cancelled"]),
      olderThan: z.union([z.string(), z.number()]),
      before: z.int(),
    })
    .optional(),
  changes: z.record(z.string(), z.unknown()).optional(),
  rate: z.number().positive().nullable(),
  limit: z.int().positive().nullable(),
  actor: z.string(),
  tokenId: z.string().nullable(),
});

/** Null: it cannot be read. */
export function readPlan(text: string): OperationPlan | null {
  const { data: plan } = PLAN.safeParse(parsed(text));
  if (plan === undefined) return null;
  const targets = [plan.ids, plan.filter, plan.purge].filter((target) => target !== undefined);
  const isPurge = plan.action === "purge";
  return targets.length === 1 && isPurge === (plan.purge !== undefined) ? (plan as OperationPlan) : null;
}

const POSITION = z.object({
  at: z.union([z.string(), z.int().min(0)]).nullable(),
  found: z.int().min(0),
  ending: z.object({ state: z.enum(OPERATION_STATES).exclude(["running"]), auditId: z.guid() }).nullable(),
});
/** What the result has besides the summary. */
const OTHERS = { id: "", state: "running", leaseUntil: null, startedAt: "", endedAt: null };

/** Null: it cannot be read. */
export function readSummary(text: string): OperationSummary | null {
  const summary = parsed(text);
  if (typeof summary !== "object" || summary === null) return null;
  const isComplete = POSITION.safeParse(summary).success && operation.safeParse({ ...summary, ...OTHERS }).success;
  return isComplete ? (summary as OperationSummary) : null;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
