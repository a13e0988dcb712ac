import type { Holdfast } from "../../engine/client/holdfast.js";
import type { Logger } from "../../engine/events/logger.js";
import type { ErrorReporter } from "../../engine/events/reports.js";
import type { Telemetry } from "../../engine/events/telemetry.js";
import type { JobType } from "../../job/job.js";
import { read } from "../../job/thrown.js";
import { Failure } from "../errors.js";

/** What a module exports, by name. */
export type Exports = Readonly<Record<string, unknown>>;

/** What a jobs module brings. */
export interface ModuleExports {
  readonly jobs: readonly JobType[];
  /** Called once with the client before it works: to define schedules, say. */
  readonly setup: ((hf: Holdfast) => unknown) | null;
  /** Called once at the end, when the client is closed: to send what telemetry or a log still has. */
  readonly teardown: (() => unknown) | null;
  /** For the client, as `holdfast()` takes it; so are the next two. */
  readonly reporter: ErrorReporter | null;
  readonly telemetry: Telemetry | null;
  readonly logger: Logger | null;
}

/** The names that mean something: what an export of that name must be, and the functions it must have; null: it is one. */
const MEANT = {
  setup: { calls: null, must: "be a function", hint: "export function setup(hf) { … }" },
  teardown: { calls: null, must: "be a function", hint: "export async function teardown() { … }" },
  reporter: {
    calls: ["report"],
    must: "be an object with a function report",
    hint: "export const reporter = sentry(Sentry), or one of your own",
  },
  telemetry: {
    calls: ["enqueue", "run"],
    must: "be an object with functions enqueue and run",
    hint: "export const telemetry = openTelemetry(), or one of your own",
  },
  logger: {
    calls: ["info", "warn", "error"],
    must: "be an object with functions info, warn and error",
    hint: "export const logger = pino(), or one of your own",
  },
} as const;

/** Every export counts that is a job type, or a list or record of them, by any name; what else counts has a name of its own. */
export function readExports(exported: Exports, given: string): ModuleExports {
  const jobs = jobsIn(exported, given);
  const named = <Kind>(name: keyof typeof MEANT): Kind | null => {
    const value = exported[name];
    // A job is a job, whatever its name.
    if (value === undefined || jobsIn({ [name]: value }, given).length > 0) return null;
    const { calls, must, hint } = MEANT[name];
    const fits = calls === null ? typeof value === "function" : calls.every((call) => hasFunction(value, call));
    if (!fits) throw new Failure(`${name} in ${given} must ${must}`, { hint });
    return value as Kind;
  };
  const brought: ModuleExports = {
    jobs,
    setup: named("setup"),
    teardown: named("teardown"),
    reporter: named("reporter"),
    telemetry: named("telemetry"),
    logger: named("logger"),
  };
  if (jobs.length === 0) {
    const names = Object.keys(exported);
    throw new Failure(`there is no job in ${given}: it exports ${names.length === 0 ? "nothing" : names.join(", ")}`, {
      hint: "export what job({ … }) returned, by any name",
    });
  }
  return brought;
}

function hasFunction(value: unknown, call: string): boolean {
  return typeof (value as Record<string, unknown> | null)?.[call] === "function";
}

function jobsIn(exported: Exports, given: string): JobType[] {
  const byType = new Map<string, { job: JobType; name: string }>();
  const look = (value: unknown, name: string, depth: number): void => {
    if (isJobType(value)) {
      const known = byType.get(value.type);
      if (known === undefined) byType.set(value.type, { job: value, name });
      else if (known.job !== value) {
        throw new Failure(
          `${known.name} and ${name} in ${given} are two jobs of the type ${JSON.stringify(value.type)}`,
          {
            hint: "give one of them another type",
          },
        );
      }
      return;
    }
    if (typeof value !== "object" || value === null || depth === 0) return;
    // A module may export anything beside its jobs, and a getter in that may throw.
    for (const key of Object.keys(value)) look(read(value, key), `${name}.${key}`, depth - 1);
  };
  for (const [name, value] of Object.entries(exported)) look(value, name, 2);
  return [...byType.values()].map(({ job }) => job);
}

/** What `job()` made, of this copy of the package or another. */
function isJobType(value: unknown): value is JobType {
  return (
    typeof value === "object" &&
    typeof read(value, "type") === "string" &&
    typeof read(value, "run") === "function" &&
    typeof read(value, "backoff") === "function"
  );
}
