import { readFileSync } from "node:fs";
import type { JobConditions, JobSummary } from "holdfast/admin";
import { describe, expect, it } from "vitest";
import { toCsv } from "../../src/views/jobs/export.js";
import { FIELDS, suggest, type Sources } from "../../src/views/jobs/filter-completion.js";
import { readToken, splitTokens } from "../../src/views/jobs/filter-text.js";
import { matches, parseFilter, queryOf, withState, type Known } from "../../src/views/jobs/filter.js";
import { noteOf, obstaclesOf, oneLine, timing } from "../../src/views/jobs/job-text.js";

const NOW = new Date(2026, 10, 18, 14, 30).getTime();
const ID = "019a8c1e-4f20-7b3c-9d11-00007f5e214c";
const KNOWN: Known = {
  now: NOW,
  types: ["email.receipt", "email.welcome", "gmail.sync"],
  queues: ["mail", "sync"],
};

function conditionsOf(text: string, known: Known = KNOWN): JobConditions {
  const { tokens, conditions } = parseFilter(text, known);
  expect(tokens.map(({ problem }) => problem).filter((problem) => problem !== null)).toEqual([]);
  return conditions;
}

function problemOf(text: string, known: Known = KNOWN): string | null {
  return parseFilter(text, known).tokens.at(-1)?.problem ?? null;
}

function jobWith(given: Partial<JobSummary> = {}): JobSummary {
  const at = new Date(NOW - 60_000).toISOString();
  return {
    id: ID,
    type: "gmail.sync",
    queue: "sync",
    state: "dead",
    priority: 0,
    user: "u-1",
    attempt: 3,
    maxAttempts: 3,
    runAt: at,
    dueAt: null,
    expiresAt: null,
    createdAt: at,
    updatedAt: at,
    claimedAt: at,
    startedAt: at,
    finishedAt: at,
    cancelRequestedAt: null,
    worker: null,
    key: null,
    tags: ["eu"],
    schedule: null,
    parent: null,
    timeoutMs: null,
    progress: null,
    error: null,
    ...given,
  };
}

it("has the fields that the guide lists", () => {
  const guide = readFileSync(new URL("../../../../docs/guides/dashboard.md", import.meta.url), "utf8");
  const table = /## Filters\n(.*?)\n## /s.exec(guide)?.[1] ?? "";
  const rows = [...table.matchAll(/^\| (`.*?) +\|/gm)].map(([, cell = ""]) => cell);
  const listed = rows.flatMap((cell) =>
    [...cell.matchAll(/`-?([a-z]+)(:|\.)/g)].map(([, name = "", sign]) => (sign === "." ? `${name}.` : name)),
  );
  expect([...new Set(listed)].toSorted()).toEqual(Object.keys(FIELDS).toSorted());
});

describe("the tokens of a filter", () => {
  it("end at spaces outside of quotation marks", () => {
    expect(splitTokens('  state:dead user:"Ada L"  input.name:~"a \\"b\\" c" x"y z')).toEqual([
      "state:dead",
      'user:"Ada L"',
      'input.name:~"a \\"b\\" c"',
      'x"y',
      "z",
    ]);
  });

  it("have a field, a path and a value", () => {
    expect(readToken("-type:a:b")).toMatchObject({ isExcluded: true, field: "type", path: null, value: "a:b" });
    expect(readToken('Input.Order.id:"o 1\\""')).toMatchObject({
      field: "input",
      path: "Order.id",
      value: 'o 1"',
      isQuoted: true,
    });
    expect(readToken('user:"Ada')).toMatchObject({ value: "Ada", isOpen: true });
    expect(readToken("timeout")).toMatchObject({ field: "", value: "timeout" });
  });
});

describe("the conditions of a filter", () => {
  it("combine values of states, types and queues", () => {
    expect(conditionsOf("state:dead,failed type:gmail.sync type:other queue:mail")).toEqual({
      state: ["failed", "dead"],
      type: ["gmail.sync", "other"],
      queue: ["mail"],
    });
  });

  it("have one value for each other field", () => {
    const text = `user:u-1 tag:eu key:k schedule:nightly parent:${ID} priority:-5 fingerprint:0123456789abcdef id:${ID}`;
    expect(conditionsOf(text)).toEqual({
      user: "u-1",
      tag: "eu",
      key: "k",
      schedule: "nightly",
      parent: ID,
      priority: -5,
      fingerprint: "0123456789abcdef",
      id: [ID],
    });
    expect(conditionsOf('error:"503 backend"')).toEqual({ error: "503 backend" });
    expect(conditionsOf(ID)).toEqual({ id: [ID] });
  });

  it("expand wildcards to the known types", () => {
    expect(conditionsOf("type:email.*")).toEqual({ type: ["email.receipt", "email.welcome"] });
    expect(conditionsOf('type:"email.*"')).toEqual({ type: ["email.*"] });
    expect(parseFilter("type:x*", KNOWN)).toMatchObject({ isImpossible: true, conditions: {} });
  });

  it("have any number of wildcards, compared in time", () => {
    const of = (type: string, name: string): boolean =>
      !parseFilter(`type:${type}`, { ...KNOWN, types: [name] }).isImpossible;
    expect(["a*", "*C", "a*c", "*b*", "**", "A*b*c", "abc*"].filter((type) => !of(type, "aBc"))).toEqual([]);
    expect(["b*", "*b", "abc*c", "a*bc*c", "*c*b*", "ab*bc"].filter((type) => of(type, "abc"))).toEqual([]);
    expect(of(`${"*a".repeat(40)}*b`, "a".repeat(100))).toBe(false);
  });

  it("may have very many quotation marks", () => {
    const text = '"'.repeat(1_000_000);
    expect(splitTokens(text)).toEqual([text]);
  });

  it("exclude by choosing the others", () => {
    expect(conditionsOf("-state:completed -state:cancelled").state).toEqual([
      "running",
      "claimed",
      "pending",
      "failed",
      "dead",
    ]);
    expect(conditionsOf("-type:email.*")).toEqual({ type: ["gmail.sync"] });
    expect(conditionsOf("type:email.* -type:email.welcome")).toEqual({ type: ["email.receipt"] });
    expect(parseFilter("state:dead -state:dead", KNOWN).isImpossible).toBe(true);
  });

  it("wait for names that are not loaded", () => {
    const loading = { now: NOW, types: undefined, queues: undefined };
    expect(parseFilter("type:email.*", loading).isWaiting).toBe(true);
    expect(parseFilter("-queue:mail", loading).isWaiting).toBe(true);
    expect(parseFilter("type:email.welcome -state:dead", loading).isWaiting).toBe(false);
    expect(problemOf("type:a*", { ...KNOWN, types: null })).toMatch(/Your role does not see the list of types/);
  });

  it("compare inputs as JSON or as text", () => {
    expect(conditionsOf("input.order.id:o-17").input).toEqual({ path: "order.id", equals: "o-17" });
    expect(conditionsOf("input.total:17").input).toEqual({ path: "total", equals: 17 });
    expect(conditionsOf('input.total:"17"').input).toEqual({ path: "total", equals: "17" });
    expect(conditionsOf("input.paid:true").input).toEqual({ path: "paid", equals: true });
    expect(conditionsOf('input.name:~"ada l"').input).toEqual({ path: "name", text: "ada l" });
    expect(conditionsOf('input:"two words"').input).toEqual({ text: "two words" });
  });

  it("read ages, times and days of the viewer", () => {
    const iso = (...parts: [number, number, number, number?, number?]): string => new Date(...parts).toISOString();
    expect(conditionsOf("created:<1h")).toEqual({ createdAfter: iso(2026, 10, 18, 13, 30) });
    expect(conditionsOf("created:>1h30m")).toEqual({ createdBefore: iso(2026, 10, 18, 13, 0) });
    expect(conditionsOf("created:>13:45")).toEqual({ createdAfter: iso(2026, 10, 18, 13, 45) });
    expect(conditionsOf("created:<2026-11-01")).toEqual({ createdBefore: iso(2026, 10, 1) });
    expect(conditionsOf("created:>2026-11-01")).toEqual({ createdAfter: iso(2026, 10, 2) });
    expect(conditionsOf("created:today")).toEqual({
      createdAfter: iso(2026, 10, 18),
      createdBefore: iso(2026, 10, 19),
    });
    expect(conditionsOf("created:yesterday created:>2026-11-01")).toEqual({
      createdAfter: iso(2026, 10, 17),
      createdBefore: iso(2026, 10, 18),
    });
    expect(parseFilter("created:<1h created:>2h", KNOWN).isImpossible).toBe(true);
    for (const wrong of ["1h", ">", "2026-02-31", ">25:00", "soon"]) {
      expect(problemOf(`created:${wrong}`)).toMatch(/^Use <1h/);
    }
  });

  it("say why a token is not used", () => {
    expect(problemOf("timeout")).toMatch(/^Put a field before it, such as type:timeout/);
    expect(problemOf("colour:red")).toMatch(/^There is no field colour\. Fields are state, type/);
    expect(problemOf("state:broken")).toMatch(/^There is no state broken/);
    expect(problemOf("user:")).toBe("Type a value after the colon");
    expect(problemOf('user:"Ada')).toBe("The quotation mark is not closed");
    expect(problemOf("user:a user:b")).toMatch(/^Only one user can be chosen/);
    expect(problemOf("-tag:test")).toMatch(/^The server cannot exclude by tag yet/);
    expect(problemOf(`error:${"x".repeat(1_001)}`)).toMatch(/^It is longer than 1000 characters/);
    expect(problemOf("worker:w1")).toMatch(/^The server cannot filter by worker yet/);
    expect(problemOf("priority:101")).toMatch(/^Type a whole number/);
    expect(problemOf("parent:12")).toMatch(/whole id/);
    expect(problemOf("constructor:x")).toMatch(/^There is no field constructor/);
    const many = { ...KNOWN, types: Array.from({ length: 60 }, (_, at) => `t${at}`) };
    expect(problemOf("type:t*", many)).toMatch(/^At most 50 types/);
    expect(problemOf("-type:t1", many)).toMatch(/^More than 50 types are left/);
    // The others are used.
    expect(parseFilter("nonsense state:dead", KNOWN).conditions).toEqual({ state: ["dead"] });
  });

  it("become the same text and back", () => {
    const all: JobConditions[] = [
      {},
      { state: ["dead"], type: ["a b", 'say "x"', "email.*", "back\\slash"], queue: ["q,1"] },
      { user: "<Ada>", tag: "t", key: "k:1", schedule: "s", parent: ID, priority: 7, fingerprint: "0123456789abcdef" },
      { id: [ID], createdAfter: "2026-11-01T00:00:00.000Z", createdBefore: "2026-11-02T10:30:00.000Z" },
      { input: { path: "order.id", equals: "17" } },
      { input: { path: "order.id", equals: 17 } },
      { input: { path: "a", equals: null } },
      { input: { path: "name", text: "~two words" } },
      { input: { text: "two words" } },
    ];
    for (const conditions of all) expect(conditionsOf(queryOf(conditions))).toEqual(conditions);
  });

  it("change their states and keep the rest", () => {
    expect(withState("-state:dead type:a state:failed", "running")).toBe("state:running type:a");
    expect(withState("state:dead user:x", null)).toBe("user:x");
  });
});

describe("a job that changes", () => {
  it("matches or no longer matches", () => {
    const job = jobWith();
    for (const text of ["", "state:dead", "type:gmail.*", "user:u-1 tag:eu", `id:${ID}`, "created:<1h"]) {
      expect(matches(job, conditionsOf(text))).toBe(true);
    }
    for (const text of ["-state:dead", "type:email.*", "user:u", "tag:us", "priority:1", "created:>1h", "key:k"]) {
      expect(matches(job, conditionsOf(text))).toBe(false);
    }
    expect(matches(job, conditionsOf("input:x"))).toBe(null);
    expect(matches(job, conditionsOf("input:x state:running"))).toBe(false);
  });

  it("says when it runs or ended", () => {
    const at = (ms: number): string => new Date(NOW + ms).toISOString();
    const text = (given: Partial<JobSummary>): string => timing(jobWith(given), NOW);
    expect(text({ state: "pending", dueAt: at(772_000) })).toBe("due in 12 m 52 s");
    expect(text({ state: "pending", dueAt: at(-180_000) })).toBe("due 3 m ago");
    expect(text({ state: "pending", dueAt: new Date(8.64e15).toISOString() })).toBe("waits");
    expect(text({ state: "failed", dueAt: at(22_000) })).toBe("retries in 22 s");
    expect(text({ state: "running", dueAt: at(20_000), startedAt: at(-4_000) })).toBe("started 4 s ago");
    expect(text({ state: "running", dueAt: at(-5_000) })).toBe("lease expired 5 s ago");
    expect(text({ state: "completed", startedAt: at(-500), finishedAt: at(-316) })).toBe("took 184 ms");
    expect(text({ state: "dead", finishedAt: at(-360_000) })).toBe("died 6 m ago");
  });

  it("says what keeps it from running", () => {
    const job = jobWith({ state: "pending", dueAt: new Date(NOW - 1).toISOString() });
    const worker = { types: ["gmail.sync"], queues: ["mail"], left: false } as never;
    const textOf = (obstacles: ReturnType<typeof obstaclesOf>): string | undefined => noteOf(job, obstacles, NOW)?.text;
    const paused = { queue: "sync", paused: true, pausedAt: null, pausedBy: null, priorities: [] };
    expect(textOf(obstaclesOf({ queues: [paused], paused: false }, []))).toBe("Queue is paused");
    expect(textOf(obstaclesOf({ queues: [], paused: true }, []))).toBe("All queues are paused");
    expect(textOf(obstaclesOf(undefined, []))).toBe("No worker takes this type");
    expect(textOf(obstaclesOf(undefined, [worker]))).toBe("No worker takes this queue");
    expect(textOf(obstaclesOf(undefined, undefined))).toBeUndefined();
  });

  it("has a short error without control characters", () => {
    expect(oneLine("\u001B[31mred\u001B[0m\n  at x")).toBe("red   at x");
    expect(oneLine("x".repeat(100_000))).toHaveLength(301);
  });
});

describe("suggestions", () => {
  const counts = { running: 1, claimed: 0, pending: 0, failed: 0, dead: 40, completed: 0, cancelled: 0 };
  const sources = {
    stats: { states: counts, types: { "gmail.sync": counts }, queues: { sync: counts } },
    types: ["gmail.sync", "email.welcome"],
    states: ["dead"],
    shown: { user: ["u-1", "Ada L"], tag: [], schedule: [] },
  } as unknown as Sources;
  const texts = (draft: string): string[] => suggest(draft, sources).map(({ text }) => text);

  it("are fields, then values with their counts", () => {
    expect(texts("")[0]).toBe("state:");
    expect(texts("cre")).toEqual(["created:", "input:cre"]);
    expect(texts("-")).toEqual(["-state:", "-type:", "-queue:"]);
    expect(texts("gma")).toEqual(["type:gmail.sync", "input:gma"]);
    expect(suggest("type:g", sources)).toMatchObject([{ text: "type:gmail.sync", count: 40, isWhole: true }]);
    expect(texts("state:d")).toEqual(["state:dead"]);
    expect(texts("user:a")).toEqual(['user:"Ada L"']);
    expect(texts("created:<")).toEqual(["created:<1h", "created:<24h"]);
  });
});

describe("an export as CSV", () => {
  it("quotes cells, and starts none as a formula", () => {
    const csv = toCsv([jobWith({ type: "=1+1", user: 'a "b", c', priority: -5, tags: ["+x", "y"] })]);
    const [, line = ""] = csv.split("\r\n");
    expect(line).toContain('dead,\'=1+1,sync,"a ""b"", c",-5,3,3');
    expect(line).toContain("'+x y");
  });
});
