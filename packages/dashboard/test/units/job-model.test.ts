import type { JobDetail, ReasonResult } from "holdfast/admin";
import { describe, expect, it } from "vitest";
import { tagsOf } from "../../src/app/tags.js";
import { changesOf, undoOf, type Edited } from "../../src/views/job/edits.js";
import { errorName, framesOf, plain } from "../../src/views/job/error-text.js";
import { actionsFor, type Roles } from "../../src/views/job/offered.js";
import { timelineOf, widthsOf } from "../../src/views/job/timeline.js";
import { whyOf } from "../../src/views/job/why.js";

const START = Date.parse("2026-11-18T10:00:00.000Z");
const at = (seconds: number): string => new Date(START + seconds * 1_000).toISOString();

function job(changes: Partial<JobDetail> = {}): JobDetail {
  return {
    id: "01a1f04f-0ca2-7000-813e-770671a7f5c4",
    type: "mail",
    queue: "default",
    state: "pending",
    priority: 0,
    user: null,
    attempt: 0,
    fence: 0,
    maxAttempts: 3,
    runAt: at(0),
    dueAt: at(0),
    expiresAt: null,
    createdAt: at(0),
    updatedAt: at(0),
    claimedAt: null,
    startedAt: null,
    finishedAt: null,
    cancelRequestedAt: null,
    worker: null,
    key: null,
    tags: [],
    schedule: null,
    parent: null,
    timeoutMs: null,
    progress: null,
    error: null,
    input: {},
    output: null,
    trace: null,
    attempts: [],
    log: [],
    ...changes,
  };
}

type Attempt = JobDetail["attempts"][number];
function attempt(number: number, from: number, to: number, end: Attempt["end"]): Attempt {
  const error = end === "failed" ? { message: "503", code: null, stack: null, cause: null, data: null } : null;
  return {
    attempt: number,
    fence: number,
    end,
    worker: "w-1",
    claimedAt: at(from),
    startedAt: at(from),
    endedAt: at(to),
    error,
  };
}

describe("the timeline of a job", () => {
  it("has the fencing token of the current lease", () => {
    const leased = { attempt: 2, fence: 7, worker: "w-2", claimedAt: at(30), attempts: [attempt(1, 10, 20, "failed")] };
    const last = (more: Partial<JobDetail>) =>
      timelineOf(job({ ...leased, ...more }), START + 60_000).transitions.at(-1);
    expect(last({ state: "running", startedAt: at(30) })).toMatchObject({ kind: "running", worker: "w-2", fence: 7 });
    expect(last({ state: "claimed" })).toMatchObject({ kind: "claimed", worker: "w-2", fence: 7 });
  });

  it("has each stretch, to its end", () => {
    const dead = job({
      state: "dead",
      attempt: 3,
      finishedAt: at(100),
      runAt: at(90),
      error: { message: "503", code: null, at: at(100), fingerprint: null },
      attempts: [attempt(1, 10, 20, "failed"), attempt(2, 50, 80, "expired"), attempt(3, 90, 100, "failed")],
    });
    const { spans, transitions, total, to } = timelineOf(dead, START + 999_000);
    expect(spans.map(({ kind, from, to: end }) => [kind, (from - START) / 1_000, (end - START) / 1_000])).toEqual([
      ["wait", 0, 10],
      ["run", 10, 20],
      ["back", 20, 50],
      ["lost", 50, 80],
      ["back", 80, 90],
      ["run", 90, 100],
    ]);
    expect(to).toBe(START + 100_000);
    expect(total).toMatchObject({ run: 20_000, back: 40_000, lost: 30_000, wait: 10_000 });
    expect(transitions.map(({ kind, ms }) => [kind, ms])).toEqual([
      ["enqueued", undefined],
      ["running", 10_000],
      ["failed", 10_000],
      ["running", 30_000],
      ["expired", 30_000],
      ["running", 10_000],
      ["dead", 10_000],
    ]);
  });

  it("ends with the last attempt, however slow the store", () => {
    const kindsOf = (changes: Partial<JobDetail>) => timelineOf(job(changes), START).spans.map(({ kind }) => kind);
    const [completed, failed] = [attempt(1, 0, 10, "completed"), attempt(1, 0, 10, "failed")];
    expect(kindsOf({ state: "completed", finishedAt: at(10.9), attempts: [completed] })).toEqual(["run"]);
    expect(kindsOf({ state: "dead", finishedAt: at(10.2), attempts: [failed] })).toEqual(["run"]);
    expect(kindsOf({ state: "cancelled", finishedAt: at(40), attempts: [failed] })).toEqual(["run", "back"]);
  });

  it("ends now for a job that waits or runs", () => {
    const delayed = timelineOf(job({ runAt: at(60), dueAt: at(60) }), START + 20_000);
    expect(delayed.spans.map(({ kind }) => kind)).toEqual(["delay"]);
    expect(delayed.transitions.at(-1)).toEqual({ at: START + 60_000, kind: "due", ms: 40_000 });
    const running = timelineOf(
      job({ state: "running", attempt: 1, worker: "w-1", claimedAt: at(5), startedAt: at(8) }),
      START + 20_000,
    );
    expect(running.spans.map(({ kind, to }) => [kind, to - START])).toEqual([
      ["wait", 5_000],
      ["run", 20_000],
    ]);
    // They are more than a second apart.
    expect(running.transitions.map(({ kind }) => kind)).toEqual(["enqueued", "claimed", "running"]);
  });

  it("says that earlier attempts are not kept", () => {
    const { spans, transitions } = timelineOf(
      job({
        state: "failed",
        attempt: 41,
        attempts: [attempt(40, 500, 510, "failed"), attempt(41, 600, 610, "failed")],
      }),
      START + 700_000,
    );
    expect(spans[0]).toEqual({ kind: "unknown", from: START, to: START + 500_000 });
    expect(transitions[1]).toMatchObject({ kind: "unknown", count: 39 });
  });

  it("survives clocks that disagree", () => {
    const { spans } = timelineOf(
      job({ state: "completed", finishedAt: at(4), attempts: [attempt(1, -5, 6, "completed")] }),
      START + 9_000,
    );
    expect(spans.every(({ from, to }) => to > from)).toBe(true);
  });

  it("gives short parts a minimum width", () => {
    const widths = widthsOf([1, 1_000_000, 1], 1_000, 5);
    expect(widths).toEqual([5, 990, 5]);
    const many = widthsOf(
      Array.from({ length: 500 }, () => 1),
      1_000,
      5,
    );
    expect(many.reduce((sum, width) => sum + width, 0)).toBeCloseTo(1_000);
  });
});

describe("errors", () => {
  it("have the class of their stack", () => {
    expect(errorName({ message: "no such user", stack: "NotFound: no such user\n    at a (b.js:1:1)" })).toBe(
      "NotFound",
    );
    expect(errorName({ message: "boom", stack: "Error [ERR_X]: boom\n    at a" })).toBe("Error");
    expect(errorName({ message: "plain: text", stack: "plain: text\n    at a" })).toBeNull();
    expect(errorName({ message: "x", stack: null })).toBeNull();
  });

  it("fold the frames of libraries", () => {
    const stack = [
      "Error: x",
      "    at own (src/a.ts:1:1)",
      "    at lib (/app/node_modules/x/y.js:1:1)",
      "    at node:internal/process:1:1",
      "    at other (file:///app/src/b.ts:2:2)",
    ].join("\n");
    expect(framesOf(stack).map(({ isOwn, frames }) => [isOwn, frames.length])).toEqual([
      [true, 1],
      [false, 2],
      [true, 1],
    ]);
  });

  it("lose codes of terminals and marks of direction", () => {
    expect(plain("\u001b[31mred\u001b[0m \u202egnp.exe")).toBe("red gnp.exe");
  });
});

const reason = (kind: string, more: Partial<ReasonResult> = {}): ReasonResult => ({
  kind,
  text: `${kind}.`,
  change: "do",
  until: null,
  ...more,
});
describe("why a job does not run", () => {
  it("says what happened, and what would change it", () => {
    const dead = job({ state: "dead", attempt: 3 });
    expect(whyOf(reason("dead"), dead, START)).toMatchObject({
      title: "All 3 attempts failed.",
      icon: "dead",
      colour: "dead",
    });
    expect(
      whyOf(
        reason("dead"),
        job({ state: "dead", attempt: 1, error: { message: "no card", code: null, at: at(1), fingerprint: null } }),
        START,
      ).title,
    ).toBe("It was given up after attempt 1 of 3: no card");
    expect(whyOf(reason("due-later", { until: at(772) }), job(), START)).toMatchObject({
      title: "It is due in 12 m 52 s.",
      actions: [{ kind: "promote" }],
    });
    expect(
      whyOf(
        reason("leased", { text: "Worker w on vm runs it: leased until x.", until: at(28), workers: ["w"] }),
        job(),
        START,
      ),
    ).toMatchObject({
      title: "Worker w on vm runs it.",
      text: "Its lease ends in 28 s, and is extended while the worker is alive.",
      actions: [{ kind: "workers", id: "w" }],
    });
    expect(whyOf(reason("paused", { text: 'Queue "5m" has been paused by ada for 2h 5m.' }), job(), START).title).toBe(
      'Queue "5m" has been paused by ada for 2 h 5 m.',
    );
    expect(whyOf(reason("key-held", { job: "x" }), dead, START).actions).toEqual([{ kind: "job", id: "x" }]);
    expect(whyOf(reason("paused", { queue: null }), job(), START).actions[0]).toEqual({ kind: "resume", queue: null });
    expect(
      whyOf(
        reason("ahead", { text: "3 come first.", change: "More workers; hf.update(id, { priority }) moves it up." }),
        job(),
        START,
      ).text,
    ).toBe("More workers.");
    expect(whyOf(reason("completed", { text: "It completed at 2026-11-18T09:00:00Z." }), job(), START).title).toMatch(
      /^It completed at Wed,? 18 Nov 2026/,
    );
    // Of a later version.
    expect(whyOf(reason("quota"), job(), START)).toMatchObject({ title: "quota.", text: "do" });
  });

  it("offers the role user nothing about workers and queues", () => {
    for (const kind of ["paused", "no-worker", "busy", "ahead"]) {
      expect(whyOf(reason(kind, { change: null }), job(), START).actions).toEqual([]);
    }
  });
});

describe("what may be done with a job", () => {
  const none: Roles = { operator: false, admin: false, own: false };
  const user: Roles = { ...none, own: true };
  const operator: Roles = { ...user, operator: true };
  const admin: Roles = { ...operator, admin: true };

  it("depends on its state", () => {
    const offered = (changes: Partial<JobDetail>): string => actionsFor(job(changes), admin, START).join(" ");
    expect(offered({ state: "dead" })).toBe("retry rerun rerun-same delete");
    expect(offered({ state: "pending" })).toBe("edit cancel rerun-same delete");
    expect(offered({ state: "failed", dueAt: at(9) })).toBe("promote edit cancel rerun-same retry delete");
    expect(offered({ state: "running" })).toBe("rerun cancel rerun-same");
    expect(offered({ state: "running", cancelRequestedAt: at(1) })).toBe("rerun rerun-same");
    expect(offered({ state: "completed" })).toBe("rerun rerun-same delete");
  });

  it("depends on the role", () => {
    const offered = (may: Roles): string => actionsFor(job({ state: "failed", dueAt: at(9) }), may, START).join(" ");
    expect(offered(none)).toBe("");
    expect(offered(user)).toBe("cancel retry");
    expect(offered(operator)).toBe("promote edit cancel rerun-same retry");
  });
});

describe("changes of a job", () => {
  const before: Edited = {
    runAt: "2026-11-18T10:00:00",
    expiresAt: "",
    priority: "0",
    queue: "a",
    maxAttempts: "3",
    tags: "x",
    input: "{}",
  };

  it("have only the fields that differ", () => {
    expect(changesOf(before, before)).toEqual({ changes: {}, issues: [] });
    expect(changesOf(before, { ...before, priority: "5", tags: "x, y,,x", input: '{"a":1}' }).changes).toEqual({
      priority: 5,
      tags: ["x", "y"],
      input: { a: 1 },
    });
    expect(changesOf({ ...before, expiresAt: "2026-11-18T10:00:00" }, before).changes).toEqual({ expiresAt: null });
    expect(tagsOf(" a ,b,,a")).toEqual(["a", "b"]);
  });

  it("name the fields that cannot be read", () => {
    const { changes, issues } = changesOf(before, { ...before, priority: "high", runAt: "" });
    expect(changes).toEqual({});
    expect(issues.map(({ path }) => path)).toEqual(["runAt", "priority"]);
  });

  it("can be undone field by field", () => {
    const stored = job({ priority: 2, tags: ["x"], dueAt: at(30) });
    expect(undoOf(stored, { priority: 9, runAt: at(99) }, '{"a":1}')).toEqual({ priority: 2, runAt: at(30) });
    expect(undoOf(stored, { input: {} }, '{"a":1}')).toEqual({ input: { a: 1 } });
  });

  it("cannot be undone if the former input cannot be sent", () => {
    const long = '{"order":9007199254740993}';
    const secret = '{"to":"ada","token":"[redacted]"}';
    for (const text of [long, secret]) {
      expect(undoOf(job(), { input: {} }, text)).toBeNull();
      expect(undoOf(job({ priority: 2 }), { priority: 3 }, text)).toEqual({ priority: 2 });
    }
  });
});
