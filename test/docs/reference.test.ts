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
  const described = [
    "HoldfastOptions",
    "Holdfast",
    "EnqueueOptions",
    "UniqueOptions",
    "EnqueueManyOptions",
    "Filter",
    "InputCondition",
    "ListOptions",
    "UpdateOptions",
    "ResultOptions",
    "UserJobs",
    "Stats",
    "JobOptions",
    "RetryOptions",
    "BackoffOptions",
    "RunContext",
    "Job",
    "WorkOptions",
    "Worker",
    "ClaimOptions",
    "Lease",
    "SqliteOptions",
    "PostgresOptions",
    "AccessOptions",
    "DynamoOptions",
    "DynamoStore",
    "FakeClock",
    "StoreHarness",
    "StoreUnderTest",
    "Events",
    "ScheduleSettings",
    "ScheduleChanges",
    "Schedules",
    "Schedule",
    "SlotRecord",
    "ScheduleListOptions",
    "SchedulerOptions",
    "AuditLog",
    "AuditListOptions",
    "AuditRecord",
    "Tokens",
    "TokenOptions",
    "BulkOptions",
    "Telemetry",
    "TracedRun",
    "ErrorReporter",
    "JobFailure",
    "OpenTelemetryOptions",
    "SentryOptions",
  ];
  const inPassing: Record<string, string[]> = {
    // Declared by JobWithInput and JobWithoutInput.
    JobOptions: ["input", "run"],
    // Used by the engine and the API; mentioned outside the table.
    Worker: ["start", "once"],
    Schedules: ["define", "updateBy"],
    AuditLog: ["record"],
    Tokens: ["current", "known"],
  };
  const INHERITED: Record<string, string[]> = { RunContext: ["StepCalls"] };
  for (const name of described) {
    it(`${name}`, () => {
      const documented = namesIn(name);
      const extra = inPassing[name] ?? [];
      const members = [...membersOf(name), ...(INHERITED[name] ?? []).flatMap((parent) => membersOf(parent))];
      expect(documented.filter((member) => !extra.includes(member)).toSorted()).toEqual(
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
      to.startsWith("none") ? [] : [...to.matchAll(/`(\w+)`/g)].map(([, state]) => state),
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

/** What a "Default" column may have for an option; several values if options of different calls share a name. */
const OPTION_DEFAULTS: Readonly<Record<string, readonly string[]>> = {
  retry: [`${DEFAULTS.maxAttempts} attempts, ${curve} ± ${backoff.jitter * 100} %`],
  backoff: [curve],
  maxAttempts: [count(DEFAULTS.maxAttempts), "the job type's", "unchanged"],
  "retry.maxAttempts": [count(DEFAULTS.maxAttempts)],
  ...Object.fromEntries(
    [...leaves({ backoff })].flatMap(([path, text]) => [
      [`retry.${path}`, [text]],
      [path.replace("backoff.", ""), [text]],
    ]),
  ),
  // Schedules and retries both have a jitter.
  jitter: [count(backoff.jitter), "none"],
  timezone: [`\`"${schedule.timezone}"\``],
  catchUp: [`\`"${schedule.catchUp}"\``],
  overlap: [`\`"${schedule.overlap}"\``],
  tick: [duration(schedule.tickMs)],
  timeout: [duration(DEFAULTS.timeoutMs), "none", "the job type's"],
  queue: [`\`"${DEFAULTS.queue}"\``, "the job type's", "any", "unchanged"],
  priority: [count(DEFAULTS.priority), "the job type's", "any", "unchanged"],
  concurrency: [count(DEFAULTS.concurrency)],
  lease: [duration(DEFAULTS.leaseMs)],
  poll: [duration(DEFAULTS.pollMs)],
  grace: [duration(DEFAULTS.graceMs)],
  retention: [
    `completed ${kept.completed}, dead ${kept.dead}, cancelled ${cancelledKept}, audit ${auditKept}`,
    "the client's",
  ],
  "retention.completed": [kept.completed],
  "retention.dead": [kept.dead],
  "retention.cancelled": [cancelledKept],
  "retention.audit": [auditKept],
  completed: [kept.completed],
  dead: [kept.dead],
  cancelled: [cancelledKept],
};

const PACK_GUIDE = /^docs\/guides\/(?:mail|stripe|discord|housekeeping)\.md$/;

describe("every default in a table is the default in the code", () => {
  for (const document of findDocuments()) {
    for (const { line, header, rows } of tablesOf(document)) {
      // Packs have options with the same names and defaults of their own: see packs.test.ts.
      if (header[1] !== "Default" || PACK_GUIDE.test(document.path)) continue;
      it(`${document.path}:${line}`, () => {
        for (const [option = "", stated = ""] of rows) {
          const allowed = OPTION_DEFAULTS[option.replaceAll("`", "")];
          if (allowed !== undefined && !allowed.includes(stated)) {
            throw new Error(`${option}: the table has ${stated}, the code ${allowed.join(" or ")}`);
          }
        }
      });
    }
  }
});
