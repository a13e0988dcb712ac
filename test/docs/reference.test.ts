import { STATES } from "holdfast";
import { describe, expect, it } from "vitest";
import { DEFAULTS, LIMITS } from "../../packages/holdfast/dist/defaults.js";
import { TRANSITIONS } from "../../packages/holdfast/dist/job/state.js";
import { errorCodes, exportsOf, membersOf } from "./declarations.js";
import { findDocuments, readDocument, tablesOf, tableAfter } from "./documents.js";
import { count, duration, leaves } from "./wording.js";

const reference = readDocument("docs/reference/api.md");

/** The first word inside code of every row's first cell, each cell's alternatives included: `` `get(id)` `` is `get`. */
function namesIn(heading: string): string[] {
  return tableAfter(reference, heading).flatMap(([cell = ""]) => [
    ...new Set([...cell.matchAll(/`(?<name>\w+)/g)].map(({ groups }) => groups?.["name"] ?? "")),
  ]);
}

describe("C-21 docs/reference/api.md names every export", () => {
  const prose = reference.prose.join("\n");
  for (const [entry, file] of Object.entries({
    holdfast: "index.d.ts",
    "holdfast/sqlite": "stores/sqlite/index.d.ts",
    "holdfast/postgres": "stores/postgres/index.d.ts",
    "holdfast/dynamodb": "stores/dynamodb/index.d.ts",
    "holdfast/opentelemetry": "observe/opentelemetry/index.d.ts",
    "holdfast/sentry": "observe/sentry.d.ts",
    "holdfast/admin": "admin/index.d.ts",
    "holdfast/testing": "testing/index.d.ts",
    "holdfast/store": "stores/contract.d.ts",
  })) {
    it(`of ${entry}`, () => {
      const names = exportsOf(file);
      expect(names.length).toBeGreaterThan(1);
      const missing = names.filter((name) => !new RegExp(`\`${name}\\b|^#+ ${name}$`, "m").test(prose));
      expect(missing).toEqual([]);
    });
  }
});

describe("docs/reference/api.md lists every member, and no other, of", () => {
  const declaredIn: Record<string, string> = {
    HoldfastOptions: "engine/holdfast.d.ts",
    Holdfast: "engine/holdfast.d.ts",
    EnqueueOptions: "engine/new-job.d.ts",
    UniqueOptions: "engine/unique.d.ts",
    EnqueueManyOptions: "engine/enqueuer.d.ts",
    Filter: "engine/filter.d.ts",
    ListOptions: "engine/filter.d.ts",
    ResultOptions: "engine/results.d.ts",
    UserJobs: "engine/user-jobs.d.ts",
    Stats: "engine/stats.d.ts",
    JobOptions: "job.d.ts",
    RetryOptions: "retry.d.ts",
    BackoffOptions: "retry.d.ts",
    RunContext: "job.d.ts",
    Job: "job.d.ts",
    WorkOptions: "engine/worker.d.ts",
    Worker: "engine/worker.d.ts",
    ClaimOptions: "engine/holdfast.d.ts",
    Lease: "engine/lease.d.ts",
    SqliteOptions: "stores/sqlite/open.d.ts",
    PostgresOptions: "stores/postgres/open.d.ts",
    AccessOptions: "stores/postgres/access.d.ts",
    DynamoOptions: "stores/dynamodb/options.d.ts",
    DynamoStore: "stores/dynamodb/open.d.ts",
    FakeClock: "testing/clock.d.ts",
    StoreHarness: "testing/exercise-store/harness.d.ts",
    StoreUnderTest: "testing/exercise-store/harness.d.ts",
    Events: "engine/events.d.ts",
    ScheduleSettings: "engine/schedule-definition.d.ts",
    ScheduleChanges: "engine/schedule-definition.d.ts",
    Schedules: "engine/schedules.d.ts",
    Schedule: "engine/schedules.d.ts",
    SlotRecord: "engine/schedules.d.ts",
    ScheduleListOptions: "engine/schedules.d.ts",
    SchedulerOptions: "engine/holdfast.d.ts",
    AuditLog: "engine/audit.d.ts",
    AuditListOptions: "engine/audit.d.ts",
    AuditRecord: "engine/audit.d.ts",
    Tokens: "engine/tokens.d.ts",
    TokenOptions: "engine/tokens.d.ts",
    BulkOptions: "engine/changes.d.ts",
    Telemetry: "engine/telemetry.d.ts",
    TracedRun: "engine/telemetry.d.ts",
    ErrorReporter: "engine/reports.d.ts",
    JobFailure: "engine/reports.d.ts",
    OpenTelemetryOptions: "observe/opentelemetry/index.d.ts",
    SentryOptions: "observe/sentry.d.ts",
  };
  const inPassing: Record<string, string[]> = {
    // Declared by JobWithInput and JobWithoutInput.
    JobOptions: ["input", "run"],
    // For the engine; said below the table.
    Worker: ["start", "once"],
    Schedules: ["define", "updateBy"],
    AuditLog: ["record"],
    Tokens: ["current", "known"],
  };
  for (const [name, file] of Object.entries(declaredIn)) {
    it(`${name}`, () => {
      const listed = namesIn(name);
      const extra = inPassing[name] ?? [];
      const members = membersOf(file, name);
      expect(listed.filter((member) => !extra.includes(member)).toSorted()).toEqual(
        members.filter((member) => !extra.includes(member)).toSorted(),
      );
    });
  }
});

describe("docs/reference/api.md agrees with the code on", () => {
  for (const [heading, tree] of Object.entries({ Defaults: DEFAULTS, Limits: LIMITS })) {
    it(`${heading}`, () => {
      const listed = tableAfter(reference, heading).map(([name = "", value]) => [name.replaceAll("`", ""), value]);
      expect(Object.fromEntries(listed)).toEqual(Object.fromEntries(leaves(tree)));
    });
  }

  it("states", () => {
    const listed = tableAfter(reference, "States").map((row) => row.map((cell) => cell.replaceAll("`", "")));
    expect(listed).toEqual(Object.entries(STATES).map(([name, { kind, meaning }]) => [name, kind, meaning]));
  });

  it("transitions", () => {
    const listed = tableAfter(reference, "Transitions").map(([from = "", to = ""]) => [
      from.replaceAll("`", ""),
      to.startsWith("nothing") ? [] : [...to.matchAll(/`(\w+)`/g)].map(([, state]) => state),
    ]);
    expect(Object.fromEntries(listed)).toEqual(TRANSITIONS);
  });

  it("errors and their codes", () => {
    const listed = tableAfter(reference, "Errors").map(([name = "", code = ""]) => [
      name.replaceAll("`", ""),
      code.replaceAll("`", ""),
    ]);
    expect(Object.fromEntries(listed)).toEqual(Object.fromEntries(errorCodes()));
  });
});

const { backoff, retention, schedule } = DEFAULTS;
const curve = `${duration(backoff.base)} × ${backoff.factor}ⁿ`;
const kept = { completed: duration(retention.completed.age), dead: duration(retention.dead.age) };
const cancelledKept = duration(retention.cancelled.age);
const auditKept = duration(retention.audit.age);

/** What a "Default" column may say of an option; several where options of one name belong to different calls. */
const OPTION_DEFAULTS: Readonly<Record<string, readonly string[]>> = {
  retry: [`${DEFAULTS.maxAttempts} attempts, ${curve} ± ${backoff.jitter * 100} %`],
  backoff: [curve],
  maxAttempts: [count(DEFAULTS.maxAttempts), "the job type's"],
  "retry.maxAttempts": [count(DEFAULTS.maxAttempts)],
  ...Object.fromEntries(
    [...leaves({ backoff })].flatMap(([path, text]) => [
      [`retry.${path}`, [text]],
      [path.replace("backoff.", ""), [text]],
    ]),
  ),
  // A schedule's is another one than a retry's.
  jitter: [count(backoff.jitter), "none"],
  timezone: [`\`"${schedule.timezone}"\``],
  catchUp: [`\`"${schedule.catchUp}"\``],
  overlap: [`\`"${schedule.overlap}"\``],
  tick: [duration(schedule.tickMs)],
  timeout: [duration(DEFAULTS.timeoutMs), "none"],
  queue: [`\`"${DEFAULTS.queue}"\``, "the job type's", "any"],
  priority: [count(DEFAULTS.priority), "the job type's"],
  concurrency: [count(DEFAULTS.concurrency)],
  lease: [duration(DEFAULTS.leaseMs)],
  poll: [duration(DEFAULTS.pollMs)],
  grace: [duration(DEFAULTS.graceMs)],
  retention: [`completed ${kept.completed}, dead ${kept.dead}, cancelled ${cancelledKept}, audit ${auditKept}`],
  "retention.completed": [kept.completed],
  "retention.dead": [kept.dead],
  "retention.cancelled": [cancelledKept],
  "retention.audit": [auditKept],
  completed: [kept.completed],
  dead: [kept.dead],
  cancelled: [cancelledKept],
};

describe("every default that a table tells is that of the code", () => {
  for (const document of findDocuments()) {
    for (const { line, header, rows } of tablesOf(document)) {
      if (header[1] !== "Default") continue;
      it(`${document.path}:${line}`, () => {
        for (const [option = "", told = ""] of rows) {
          const allowed = OPTION_DEFAULTS[option.replaceAll("`", "")];
          if (allowed !== undefined && !allowed.includes(told)) {
            throw new Error(`${option}: the table says ${told}, the code ${allowed.join(" or ")}`);
          }
        }
      });
    }
  }
});
