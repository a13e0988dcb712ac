import { z } from "zod";
import type { StepResult } from "./api-types.js";

const time = z.string().meta({ format: "date-time" });
/** A step of a job. */
export const step: z.ZodType<StepResult> = z
  .object({
    name: z.string(),
    member: z.int(),
    kind: z.enum(["run", "sleep", "event", "job"]),
    state: z.enum(["waiting", "done", "failed"]),
    event: z.string().nullable(),
    job: z.string().nullable(),
    value: z.unknown(),
    error: z.object({ message: z.string(), code: z.string().nullable() }).nullable(),
    tries: z.int(),
    fence: z.int(),
    startedAt: time,
    endedAt: time.nullable(),
    until: time.nullable(),
  })
  .meta({ id: "Step" });
