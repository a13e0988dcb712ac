import type { StatsResult, WorkerResult } from "holdfast/admin";
import { describe, expect, it } from "vitest";
import { changeWords } from "../../src/views/overview/change-words.js";
import { messageParts } from "../../src/views/failures/placeholders.js";
import { niceTop } from "../../src/ui/time-scale.js";
import { completePoints, finishedPerMinute, inGroups, recentRate, type Point } from "../../src/views/overview/range.js";
import { findWarnings, missingWorkers, type Situation, type Warning } from "../../src/views/overview/warnings.js";

const NOW = Date.parse("2026-11-16T14:32:00Z");
const MINUTE = 60_000;
const ago = (ms: number): string => new Date(NOW - ms).toISOString();
const NONE = { pending: 0, claimed: 0, running: 0, failed: 0, completed: 0, dead: 0, cancelled: 0 };

type Count = StatsResult["counts"][number];
const waiting = (queue: string, type: string, count: number): Count => ({ queue, type, state: "pending", count });

function stats(counts: Count[], oldestDue: StatsResult["oldestDue"] = [], paused = false): StatsResult {
  const queues: StatsResult["queues"] = {};
  const states = { ...NONE };
  for (const { queue, state, count } of counts) {
    (queues[queue] ??= { ...NONE })[state] += count;
    states[state] += count;
  }
  const oldestDueMs = oldestDue.length === 0 ? null : Math.max(...oldestDue.map(({ dueMs }) => dueMs));
  const lastMinute = { completed: 0, dead: 0, cancelled: 0 };
  return { states, queues, types: {}, counts, oldestDueMs, oldestDue, lastMinute, completedPerSecond: 0, paused };
}

function worker(id: string, more: Partial<WorkerResult> = {}): WorkerResult {
  const times = { startedAt: ago(3_600_000), seenAt: ago(5_000) };
  return {
    id,
    queues: null,
    types: ["mail"],
    concurrency: 8,
    running: 0,
    host: id,
    pid: 1,
    left: false,
    draining: false,
    version: null,
    jobs: [],
    ...times,
    ...more,
  };
}

function find(some: Partial<Situation>): Warning[] {
  return findWarnings({
    now: NOW,
    stats: stats([]),
    workers: [worker("w-1")],
    queues: [],
    groups: [],
    dead: new Map(),
    schedules: [],
    before: new Map(),
    ...some,
  });
}

function text({ title, detail, advice }: Warning): string {
  const show = (pieces: Warning["title"]): string =>
    pieces.map((piece) => (typeof piece === "string" ? piece : "name" in piece ? piece.name : piece.quoted)).join("");
  return [show(title), show(detail), show(advice)].filter((part) => part !== "").join(" ");
}

const texts = (some: Partial<Situation>): string[] => find(some).map(text);

describe("warnings", () => {
  it("are none while all is well", () => {
    const calm = stats([waiting("default", "mail", 40)], [{ queue: "default", dueMs: 2_000 }]);
    expect(find({ stats: calm })).toEqual([]);
  });

  it("name a type that no worker takes", () => {
    const one = stats([waiting("media", "video.encode", 41)], [{ queue: "media", dueMs: 47 * MINUTE }]);
    expect(texts({ stats: one })).toEqual([
      "No worker takes video.encode. 41 jobs wait, the oldest for 47 m. " +
        "Start a worker that handles it. If the name is a mistake, cancel the jobs.",
    ]);
    expect(find({ stats: one })[0]?.jobs).toEqual({ state: "pending,failed", type: "video.encode" });
  });

  it("name the missing worker that took the type, once", () => {
    const one = stats([waiting("media", "video.encode", 41)], [{ queue: "media", dueMs: 47 * MINUTE }]);
    const gone = worker("media-1", { types: ["video.encode"], seenAt: ago(47 * MINUTE) });
    const [only, ...others] = texts({ stats: one, workers: [worker("w-1"), gone] });
    expect(only).toMatch(/Start media-1 again: its last heartbeat was at \d\d:\d\d\.$/);
    expect(others).toEqual([]);
  });

  it("do not guess whose the oldest due job is", () => {
    const two = stats(
      [waiting("default", "mail", 3), waiting("default", "typo", 1)],
      [{ queue: "default", dueMs: 2 * MINUTE }],
    );
    expect(texts({ stats: two })[0]).toMatch(/^No worker takes typo\. 1 job waits\. /);
  });

  it("look at the queues of workers", () => {
    const one = stats([waiting("bulk", "mail", 3)], [{ queue: "bulk", dueMs: 2 * MINUTE }]);
    expect(find({ stats: one, workers: [worker("w-1", { queues: ["default"] })] })).toHaveLength(1);
    expect(find({ stats: one, workers: [worker("w-1", { queues: ["bulk"] })] })).toEqual([]);
  });

  it("leave time for a deployment", () => {
    const one = stats([waiting("default", "new", 3)], [{ queue: "default", dueMs: 20_000 }]);
    expect(find({ stats: one })).toEqual([]);
  });

  it("are one without any live worker", () => {
    const two = stats(
      [waiting("a", "mail", 3), waiting("b", "other.type", 4)],
      [
        { queue: "a", dueMs: MINUTE },
        { queue: "b", dueMs: 2 * MINUTE },
      ],
    );
    expect(texts({ stats: two, workers: [] })).toEqual(["No live worker. 7 jobs wait, the oldest for 2 m. Start one."]);
  });

  it("are one for many types", () => {
    const counts = ["a", "b", "c", "d", "e"].map((type) => waiting("default", type, 1));
    expect(texts({ stats: stats(counts, [{ queue: "default", dueMs: 40_000 }]) })).toEqual([
      "No worker takes 5 types: a, b, c and 2 more. 5 jobs wait. Start a worker that handles them.",
    ]);
  });

  it("count jobs that are dead with one error", () => {
    const group = {
      fingerprint: "f",
      type: "gmail.sync",
      name: "GmailApiError",
      code: null,
      message: "<number>",
      frame: null,
    };
    const times = {
      firstAt: ago(3_600_000),
      lastAt: ago(6 * MINUTE),
      count: 9_000,
      job: "1",
      example: "503",
      trend: null,
    };
    const groups = [{ ...group, ...times }];
    expect(texts({ groups, dead: new Map([["f", { count: 1_000, exact: false }]]) })).toEqual([
      "More than 1,000 gmail.sync jobs are dead with one error: GmailApiError: 503. " +
        "It last occurred 6 m ago. When its cause is gone, retry them.",
    ]);
    expect(find({ groups, dead: new Map([["f", { count: 9, exact: true }]]) })).toEqual([]);
    expect(find({ groups })).toEqual([]);
  });

  it("show who paused a queue for long", () => {
    const queue = { queue: "reports", paused: true, pausedBy: "grace", priorities: [0] };
    const paused = stats([waiting("reports", "mail", 12)]);
    expect(texts({ stats: paused, queues: [{ ...queue, pausedAt: ago(2 * 3_600_000) }] })).toEqual([
      "Queue reports has been paused for 2 h by grace. 12 jobs wait.",
    ]);
    expect(find({ stats: paused, queues: [{ ...queue, pausedAt: ago(MINUTE) }] })).toEqual([]);
    expect(find({ stats: stats([]), queues: [{ ...queue, pausedAt: ago(2 * 3_600_000) }] })).toEqual([]);
  });

  it("show that all queues are paused", () => {
    const paused = stats([waiting("default", "mail", 1)], [], true);
    expect(find({ stats: paused })).toMatchObject([{ key: "all-paused", resume: null }]);
  });

  it("name a missing worker unless another replaced it", () => {
    const gone = worker("vm:1", { host: "vm", seenAt: ago(10 * MINUTE) });
    const next = worker("vm:2", { host: "vm", startedAt: ago(9 * MINUTE) });
    expect(texts({ workers: [gone, worker("other")] })[0]).toMatch(/^vm:1 is missing\. Its last heartbeat was at /);
    expect(missingWorkers([gone, next], NOW)).toEqual([]);
    expect(missingWorkers([gone, { ...next, types: [] }], NOW)).toEqual([gone]);
    expect(missingWorkers([{ ...gone, left: true }], NOW)).toEqual([]);
  });

  it("show a backlog that grows", () => {
    const late = stats([waiting("billing", "mail", 31)], [{ queue: "billing", dueMs: 12 * MINUTE }]);
    const busy = [worker("w-1", { running: 8 })];
    expect(texts({ stats: late, workers: busy, before: new Map([["billing", 3 * MINUTE]]) })).toEqual([
      "Queue billing falls behind: its oldest job has been due for 12 m. 31 jobs wait. " +
        "Its workers have no free capacity: start more, or raise their concurrency.",
    ]);
    expect(find({ stats: late, before: new Map([["billing", 20 * MINUTE]]) })).toEqual([]);
  });

  it("show a schedule that is late", () => {
    const schedule = { name: "nightly", enabled: true, nextRunAt: ago(10 * MINUTE) };
    const schedules = [schedule] as unknown as NonNullable<Situation["schedules"]>;
    expect(texts({ schedules })[0]).toMatch(/^Schedule nightly is late\. It was due at /);
    expect(find({ schedules: schedules.map((each) => ({ ...each, enabled: false })) })).toEqual([]);
  });

  it("wait for what is not loaded", () => {
    const one = stats([waiting("default", "new", 3)], [{ queue: "default", dueMs: MINUTE }]);
    expect(
      find({ stats: one, workers: undefined, queues: undefined, groups: undefined, schedules: undefined }),
    ).toEqual([]);
  });
});

describe("points", () => {
  const point = (at: number, more: Partial<Point> = {}): Point => {
    const counts = { enqueued: 0, completed: 0, failed: 0, dead: 0, cancelled: 0, waiting: null, leased: null };
    return { at: new Date(at).toISOString(), ...counts, wait: null, run: null, oldestDueMs: null, ...more };
  };

  it("leave out the minute that is not over", () => {
    const points = [point(NOW - MINUTE), point(NOW)];
    expect(completePoints(points, "minute", NOW + 30_000)).toEqual(points.slice(0, 1));
    expect(completePoints(points, "hour", NOW)).toEqual(points);
  });

  it("count the last attempt of a dead job once", () => {
    const points = [point(NOW - MINUTE, { completed: 30, failed: 5, dead: 2 })];
    expect(finishedPerMinute(inGroups(points), "minute", NOW)).toMatchObject({
      completed: [30],
      failed: [3],
      dead: [2],
    });
  });

  it("divide an hour by its minutes so far", () => {
    const points = [point(NOW - 90 * MINUTE, { completed: 600 }), point(NOW - 30 * MINUTE, { completed: 600 })];
    expect(finishedPerMinute(inGroups(points), "hour", NOW).completed).toEqual([10, 20]);
  });

  it("have a rate over five minutes", () => {
    const points = Array.from({ length: 10 }, (_, nth) => point(NOW - (10 - nth) * MINUTE, { completed: 60 }));
    expect(recentRate(points)).toBe(1);
    expect(recentRate([])).toBe(0);
  });

  it("have an axis with four round steps", () => {
    expect([0, 3, 1_480, 1_900, 2_100].map((max) => niceTop(max))).toEqual([4, 4, 1_600, 2_000, 2_400]);
  });
});

it("put audit entries into words", () => {
  const entry = { target: null, count: 0 };
  expect(changeWords({ ...entry, action: "queues.pause", target: "reports" })).toEqual({
    what: "paused a queue",
    about: "reports",
  });
  expect(changeWords({ ...entry, action: "operation.retry", count: 10 }).what).toBe("retried 10 jobs");
  const words = ["queues.pauseAll", "schedules.run", "jobs.retryMany", "tokens.create", "jobs.cancel"].map(
    (action) => changeWords({ ...entry, action }).what,
  );
  expect(words).toEqual([
    "paused all queues",
    "ran a schedule",
    "started an operation: retry",
    "created an API token",
    "cancelled a job",
  ]);
  expect(changeWords({ ...entry, action: "constructor" }).what).toBe("constructor");
});

it.each([
  ["No <b>such</b> customer: <id>", "No <b>such</b> customer: cus_9sK3", "No <b>such</b> customer: [cus_9sK3]"],
  [
    "<number> <number> <<email>>: gone",
    "550  5.1.1\n<ada@example.com>: gone",
    "[550] [5.1.1] <[ada@example.com]>: gone",
  ],
  // The message of the group ends earlier.
  ["<number> of <number> rows and mo", "12 of 40 rows and more", "[12] of [40] rows and mo"],
  // Another example than the group's.
  ["at <time>", "later", "at <time>"],
])("shows what varies in %s as it was", (message, example, expected) => {
  const shown = messageParts(message, example).map(({ text, varies }) => (varies ? `[${text}]` : text));
  expect(shown.join("")).toBe(expected);
});
