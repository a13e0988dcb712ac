import { z } from "zod";
import type { AttemptError } from "../../job/job.js";
import type { JobDetail } from "./api-types.js";

const time = z.string().meta({ format: "date-time" });
const attemptError: z.ZodType<AttemptError> = z
  .object({
    message: z.string(),
    code: z.string().nullable(),
    stack: z.string().nullable(),
    cause: z.lazy(() => attemptError).nullable(),
    data: z.record(z.string(), z.unknown()).nullable(),
  })
  .meta({ id: "AttemptError" });
/** An attempt of a job that has ended. */
export const attempt: z.ZodType<JobDetail["attempts"][number]> = z.object({
  attempt: z.int(),
  fence: z.int().nullable(),
  end: z.enum(["completed", "failed", "cancelled", "expired", "released"]),
  worker: z.string().nullable(),
  claimedAt: time.nullable(),
  startedAt: time.nullable(),
  endedAt: time,
  error: attemptError.nullable(),
});
