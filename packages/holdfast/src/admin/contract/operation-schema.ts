import { z } from "zod";
import type { JobChanges, JobConditions, OperationResult } from "./api-types.js";

const shownFilter = z.record(z.string(), z.unknown()) as unknown as z.ZodType<JobConditions>;
const shownChanges = z.record(z.string(), z.unknown()) as unknown as z.ZodType<JobChanges>;
const time = z.string().meta({ format: "date-time" });
/** A background operation. */
export const operation: z.ZodType<OperationResult> = z
  .object({
    id: z.string(),
    action: z.enum(["retry", "cancel", "delete", "update", "promote", "purge"]),
    state: z.enum(["running", "done", "stopped", "failed"]),
    target: z.object({
      ids: z.array(z.string()).exactOptional(),
      count: z.int().exactOptional(),
      filter: shownFilter.nullable().exactOptional(),
      purge: z
        .object({ state: z.enum(["completed", "dead", "cancelled"]), olderThan: z.union([z.string(), z.number()]) })
        .exactOptional(),
    }),
    changes: shownChanges.nullable(),
    rate: z.number().nullable(),
    limit: z.int().nullable(),
    examined: z.int(),
    changed: z.int(),
    requested: z.int(),
    skipped: z.record(z.string(), z.int()),
    unchanged: z.array(z.string()),
    reasons: z.record(z.string(), z.string()),
    total: z.int().nullable(),
    actor: z.string(),
    process: z.string(),
    leaseUntil: time.nullable(),
    startedAt: time,
    endedAt: time.nullable(),
    error: z.string().nullable(),
  })
  .meta({ id: "Operation" });
