import type { Holdfast } from "../../engine/client/holdfast.js";
import type { Logger } from "../../engine/events/logger.js";
import type { ErrorReporter } from "../../engine/events/reports.js";
import type { Telemetry } from "../../engine/events/telemetry.js";
import type { JobType } from "../../job/job.js";
import { read } from "../../job/thrown.js";
import { CommandError } from "../errors.js";

/** The exports of a module, by name. */
export type Exports = Readonly<Record<string, unknown>>;

/** The exports of a jobs module that have a meaning. */
export interface ModuleExports {
  readonly jobs: readonly JobType[];
  /** Called once with the client before it claims jobs, for example to define schedules. */
  readonly setup: ((hf: Holdfast) => unknown) | null;
  /** Called once after the client is closed, for example to flush telemetry. */
  readonly teardown: (() => unknown) | null;
  /** Passed to `holdfast()`, like the next two. */
  readonly reporter: ErrorReporter | null;
  readonly telemetry: Telemetry | null;
  readonly logger: Logger | null;
}

/** What each named export must be. `calls`: the functions it must have; null if it must be a function itself. */
const NAMED_EXPORTS = {
  setup: { calls: null, must: "be a function", hint: "export function setup(hf) { … }" },
  teardown: { calls: null, must: "be a function", hint: "export async function teardown() { … }" },
  reporter: {
    calls: ["report"],
    must: "be an object with a report() function",
    hint: "export const reporter = sentry(Sentry), or your own object",
  },
  telemetry: {
    calls: ["enqueue", "run"],
    must: "be an object with functions enqueue() and run()",
    hint: "export const telemetry = openTelemetry(), or your own object",
  },
  logger: {
    calls: ["info", "warn", "error"],
    must: "be an object with functions info(), warn() and error()",
    hint: "export const logger = pino(), or your own object",
  },
} as const;

/** Reads job types from exports of any name, also from arrays and objects of them, and the exports of {@link NAMED_EXPORTS}. */
export function readExports(exported: Exports, given: string): ModuleExports {
  const jobs = jobsIn(exported, given);
  const named = <Kind>(name: keyof typeof NAMED_EXPORTS): Kind | null => {
    const value = exported[name];
    // A job type is a job type, whatever its name.
    if (value === undefined || jobsIn({ [name]: value }, given).length > 0) return null;
    const { calls, must, hint } = NAMED_EXPORTS[name];
    const fits = calls === null ? typeof value === "function" : calls.every((call) => hasFunction(value, call));
    if (!fits) throw new CommandError(`${name} in ${given} must ${must}`, { hint });
    return value as Kind;
  };
  const found: ModuleExports = {
    jobs,
    setup: named("setup"),
    teardown: named("teardown"),
    reporter: named("reporter"),
    telemetry: named("telemetry"),
    logger: named("logger"),
  };
  if (jobs.length === 0) {
    const names = Object.keys(exported);
    throw new CommandError(
      `no job types in ${given}; it exports ${names.length === 0 ? "nothing" : names.join(", ")}`,
      {
        hint: "export the result of job({ … }), under any name",
      },
    );
  }
  return found;
}

function hasFunction(value: unknown, call: string): boolean {
  return typeof (value as Record<string, unknown> | null)?.[call] === "function";
}

function jobsIn(exported: Exports, given: string): JobType[] {
  const byType = new Map<string, { job: JobType; name: string }>();
  const collect = (value: unknown, name: string, depth: number): void => {
    if (isJobType(value)) {
      const known = byType.get(value.type);
      if (known === undefined) byType.set(value.type, { job: value, name });
      else if (known.job !== value) {
        throw new CommandError(
          `${known.name} and ${name} in ${given} both define the job type ${JSON.stringify(value.type)}`,
          {
            hint: "rename one of them",
          },
        );
      }
      return;
    }
    if (typeof value !== "object" || value === null || depth === 0) return;
    // A module may export anything, and a getter of it may throw.
    for (const key of Object.keys(value)) collect(read(value, key), `${name}.${key}`, depth - 1);
  };
  for (const [name, value] of Object.entries(exported)) collect(value, name, 2);
  return [...byType.values()].map(({ job }) => job);
}

/** A result of `job()`, of this copy of the package or another. */
function isJobType(value: unknown): value is JobType {
  return (
    typeof value === "object" &&
    typeof read(value, "type") === "string" &&
    typeof read(value, "run") === "function" &&
    typeof read(value, "backoff") === "function"
  );
}
