import assert from "node:assert/strict";
import { newId } from "../../job/uuid.js";
import { NEVER } from "../../schedule/slots.js";
import type { ScheduleFilter, ScheduleRecord, Store, StoredSchedule } from "../../store.js";
import { MINUTE, SECOND, stateOf } from "./builders.js";
import {
  addSchedule,
  addSchedules,
  changed,
  changeSchedule,
  fireAll,
  firingFor,
  firingOf,
  fireOne,
  jobOf,
  jobSlot,
  namesOf,
  newSchedule,
  scheduleOf,
  skippedSlot,
} from "./schedule-builders.js";
import type { DefineCase } from "./scene.js";

const YEAR = 365 * 24 * 60 * MINUTE;
const LARGE = 200 * 1024;

/** Every field set, all to different values. */
const FULL: ScheduleRecord = {
  name: "monthly report",
  version: "01900000-0000-7000-8000-000000000001",
  origin: "code",
  type: "report.build",
  queue: "reports",
  priority: -7,
  user: "user-1",
  input: ` { "month" : "2026-01", "big":123456789012345678901234567890 } `,
  maxAttempts: 9,
  expiresAfterMs: 86_400_000,
  tags: ["monthly", "eu"],
  cron: "0 8 L * *",
  timezone: "America/Argentina/Buenos_Aires",
  everyMs: null,
  startAt: Date.UTC(2025, 0, 1),
  endAt: Date.UTC(2099, 11, 31, 23, 59, 59, 999),
  jitterMs: 1_500,
  catchUp: { all: 12 },
  overlap: "skip",
  enabled: false,
  defined: `{"cron":"0 8 L * *"}`,
  changes: `{"enabled":false}`,
  nextRunAt: Date.UTC(2026, 0, 31, 8),
};
/** Every nullable field null. */
const BARE: Partial<ScheduleRecord> = {
  user: null,
  expiresAfterMs: null,
  tags: [],
  cron: null,
  timezone: null,
  everyMs: 1_000,
  startAt: null,
  endAt: null,
  catchUp: "skip",
  defined: null,
  changes: null,
  nextRunAt: null,
};

export function scheduleCases(test: DefineCase): void {
  putCases(test);
  listCases(test);
  dueCases(test);
}

function putCases(test: DefineCase): void {
  test("C-11 stores every field of a schedule", async ({ store, clock }) => {
    const fresh = { lastSlot: null, createdAt: clock.now(), updatedAt: clock.now(), slots: [] };
    for (const record of [FULL, newSchedule(BARE)]) {
      assert.equal(await store.putSchedule(record, null), "put");
      assert.deepEqual(await store.getSchedule(record.name), { ...record, ...fresh });
    }
  });

  test("stores every catch-up policy", async ({ store }) => {
    for (const [index, catchUp] of (["skip", "latest", { all: 1 }, { all: 1_000 }] as const).entries()) {
      assert.deepEqual((await addSchedule(store, { name: `s${index}`, catchUp })).catchUp, catchUp);
    }
  });

  test("stores strings of any script", async ({ store }) => {
    const odd = `naïve Ω 漢字 \u{1f9d1}\u200d\u{1f680} it's "quoted" \\ $1 ? % _ --`;
    const texts = { user: odd, tags: [odd], input: JSON.stringify({ [odd]: `\u0001 ${odd} \ud800` }) };
    const record = newSchedule({ name: odd, type: odd, queue: odd, defined: `"${odd}"`, ...texts });
    assert.equal(await store.putSchedule(record, null), "put");
    const stored = await scheduleOf(store, odd);
    assert.deepEqual({ ...stored, ...record }, stored);
    const firing = firingFor(stored, [1], texts);
    assert.deepEqual((await fireAll(store, firing)).slots[0]?.job, jobOf(firing));
    const found = await store.list({ schedule: odd }, { limit: 10, cursor: null });
    assert.deepEqual(found.jobs[0]?.schedule, { name: odd, slot: 1 });
  });

  test("similar names are different schedules", async ({ store }) => {
    const names = ["digest", "Digest", "digest ", "dígest", "dígest".normalize("NFD"), "digest2", "digest%", "diges_"];
    for (const name of names) await addSchedule(store, { name, user: name });
    for (const name of names) assert.equal((await scheduleOf(store, name)).user, name);
    assert.equal(await store.removeSchedule("digest"), true);
    assert.deepEqual((await namesOf(store)).toSorted(), names.slice(1).toSorted());
    assert.equal(await store.getSchedule("DIGEST"), null);
  });

  test("stores an input of 200 KB with definition and changes", async ({ store }) => {
    const input = JSON.stringify("x".repeat(LARGE));
    const record = newSchedule({ input, defined: JSON.stringify({ input }), changes: JSON.stringify({ input }) });
    assert.equal(await store.putSchedule(record, null), "put");
    const stored = await scheduleOf(store);
    // Not assert.equal, which would print both values in full.
    for (const field of ["input", "defined", "changes"] as const) {
      assert.ok(stored[field] === record[field], `${field} is stored unchanged`);
    }
    const firing = firingFor(stored, [1, 2, 3], { input });
    await fireAll(store, firing);
    for (const nth of [0, 1, 2])
      assert.ok((await store.get(jobOf(firing, nth)))?.input === input, "each job has the same input");
    const small = await changeSchedule(store, await scheduleOf(store), { input: "1", defined: null, changes: null });
    assert.deepEqual([small.input, small.defined, small.changes], ["1", null, null]);
  });

  test("get returns null for an unknown schedule, remove false", async ({ store }) => {
    assert.equal(await store.getSchedule("digest"), null);
    assert.equal(await store.removeSchedule("digest"), false);
  });

  test("C-15 does not create an existing schedule again", async ({ store, clock }) => {
    const before = await fired(store, clock.now());
    await clock.advance(MINUTE);
    const second = { ...FULL, name: before.name };
    assert.equal(await store.putSchedule(second, null), "changed");
    assert.equal(await store.putSchedule(changed(before, {}), null), "changed");
    assert.deepEqual(await scheduleOf(store), before);
  });

  test("C-11 a change replaces every field", async ({ store, clock }) => {
    const { version, createdAt } = await addSchedule(store, { name: FULL.name, ...BARE });
    await clock.advance(MINUTE);
    const kept = { lastSlot: null, createdAt, slots: [] };
    assert.equal(await store.putSchedule(FULL, version), "put");
    assert.deepEqual(await store.getSchedule(FULL.name), { ...FULL, ...kept, updatedAt: clock.now() });
    await clock.advance(MINUTE);
    const bare = newSchedule({ name: FULL.name, ...BARE });
    assert.equal(await store.putSchedule(bare, FULL.version), "put");
    assert.deepEqual(await store.getSchedule(FULL.name), { ...bare, ...kept, updatedAt: clock.now() });
    assert.deepEqual(await namesOf(store), [FULL.name]);
  });

  test("a change with an old version changes nothing", async ({ store, clock }) => {
    const first = await addSchedule(store);
    const second = await changeSchedule(store, first, { priority: 1 });
    const third = await fireAll(store, firingFor(second, [clock.now()]));
    await clock.advance(SECOND);
    for (const stale of [first.version, second.version, "never was", ""]) {
      assert.equal(await store.putSchedule(changed(third, { priority: 2 }), stale), "changed", stale);
    }
    assert.deepEqual(await scheduleOf(store), third);
    assert.equal((await changeSchedule(store, third, { priority: 3 })).priority, 3);
  });

  test("a change does not create a missing schedule", async ({ store }) => {
    const gone = await addSchedule(store);
    await store.removeSchedule(gone.name);
    assert.equal(await store.putSchedule(changed(gone, {}), gone.version), "changed");
    assert.equal(await store.putSchedule(newSchedule({ name: "never was" }), gone.version), "changed");
    assert.deepEqual(await namesOf(store), []);
  });

  test("C-13 a change keeps slots and creation time", async ({ store, clock }) => {
    const before = await fired(store, clock.now());
    assert.equal(before.slots.length, 2);
    await clock.advance(MINUTE);
    const nextRunAt = clock.now() - 10 * MINUTE;
    const after = await changeSchedule(store, before, { type: "report", nextRunAt });
    const { version, updatedAt } = after;
    assert.deepEqual(after, { ...before, type: "report", nextRunAt, version, updatedAt });
  });

  test("C-13 disabling and enabling keeps the slots", async ({ store, clock }) => {
    const before = await fired(store, clock.now());
    const resting = await changeSchedule(store, before, { enabled: false, nextRunAt: null });
    assert.deepEqual([resting.enabled, resting.nextRunAt], [false, null]);
    assert.deepEqual([resting.lastSlot, resting.slots], [before.lastSlot, before.slots]);
    const nextRunAt = clock.now() + MINUTE;
    const again = await changeSchedule(store, resting, { enabled: true, nextRunAt });
    const { version, updatedAt } = again;
    assert.deepEqual(again, { ...before, nextRunAt, version, updatedAt });
  });

  test("remove deletes a schedule's slots, not its jobs", async ({ store, clock }) => {
    const [short, long] = await addSchedules(store, ["digest", "digest2"]);
    assert.ok(short !== undefined && long !== undefined);
    const firing = firingFor(short, [clock.now()]);
    await fireAll(store, firing);
    const kept = await fireAll(store, firingFor(long, [clock.now()]));
    assert.equal(await store.removeSchedule("digest"), true);
    assert.equal(await store.removeSchedule("digest"), false);
    assert.equal(await store.getSchedule("digest"), null);
    assert.deepEqual(await namesOf(store), ["digest2"]);
    assert.deepEqual(await scheduleOf(store, "digest2"), kept);
    assert.equal(await stateOf(store, jobOf(firing)), "pending");
    const { jobs } = await store.list({ schedule: "digest" }, { limit: 10, cursor: null });
    assert.deepEqual(
      jobs.map((job) => job.id),
      [jobOf(firing)],
    );
  });

  test("a schedule created again after removal has no slots", async ({ store, clock }) => {
    const slot = clock.now();
    await fired(store, slot);
    await store.removeSchedule("digest");
    await clock.advance(MINUTE);
    const again = await addSchedule(store);
    assert.deepEqual([again.lastSlot, again.slots, again.createdAt], [null, [], clock.now()]);
    const after = await fireAll(store, firingFor(again, [slot - MINUTE]));
    assert.deepEqual([after.lastSlot, after.slots.length], [slot - MINUTE, 1]);
  });
}

function listCases(test: DefineCase): void {
  test("list returns schedules by name, without slots", async ({ store, clock }) => {
    assert.deepEqual(await store.listSchedules({}, { limit: 10, cursor: null }), { schedules: [], cursor: null });
    const created: StoredSchedule[] = [];
    for (const name of ["d", "b", "a", "c", "bb"]) {
      created.push(await addSchedule(store, { ...FULL, name, version: newId(Date.now()) }));
      await clock.advance(1);
    }
    await fireOne(store, firingOf(created[0] ?? FULL, { slots: [jobSlot("d", 5), skippedSlot(6, "missed")] }));
    const expected: StoredSchedule[] = [];
    for (const name of ["a", "b", "bb", "c", "d"]) expected.push({ ...(await scheduleOf(store, name)), slots: [] });
    const page = { schedules: expected, cursor: null };
    assert.deepEqual(await store.listSchedules({}, { limit: 10, cursor: null }), page);
    assert.deepEqual(await store.listSchedules({}, { limit: 5, cursor: null }), page);
  });

  test("list filters by origin, type, user and enabled", async ({ store }) => {
    const make = (name: string, overrides: Partial<ScheduleRecord>): Promise<StoredSchedule> =>
      addSchedule(store, { name, ...overrides });
    await make("a", { origin: "code", type: "mail", user: "u1" });
    await make("b", { origin: "code", type: "report", user: "u2", enabled: false });
    await make("c", { origin: "runtime", type: "mail", user: "u1", enabled: false });
    await make("d", { origin: "runtime", type: "mail" });
    const cases: [ScheduleFilter, string[]][] = [
      [{}, ["a", "b", "c", "d"]],
      [{ origin: "code" }, ["a", "b"]],
      [{ origin: "runtime" }, ["c", "d"]],
      [{ enabled: true }, ["a", "d"]],
      [{ enabled: false }, ["b", "c"]],
      [{ type: "mail" }, ["a", "c", "d"]],
      [{ type: "mai" }, []],
      [{ user: "u1" }, ["a", "c"]],
      [{ user: "U1" }, []],
      [{ user: "u1", enabled: false }, ["c"]],
      [{ origin: "code", type: "mail", user: "u1", enabled: true }, ["a"]],
      [{ origin: "code", type: "mail", user: "u2" }, []],
      [{ origin: undefined, enabled: undefined, type: undefined, user: undefined }, ["a", "b", "c", "d"]],
    ];
    for (const [filter, expected] of cases) {
      assert.deepEqual(await namesOf(store, filter), expected, JSON.stringify(filter));
    }
  });

  test("paging returns every schedule once, in order", async ({ store }) => {
    const names = [
      "a",
      "A",
      "á",
      "a b",
      "a-b",
      "ab",
      "a%",
      "Z",
      "z",
      "ß",
      "漢",
      "\u{1f680}",
      "\uffe6",
      "10",
      "9",
      "_",
      "~",
    ];
    for (const [index, name] of names.entries()) await addSchedule(store, { name, enabled: index % 2 === 0 });
    const all = await namesOf(store);
    assert.deepEqual(all.toSorted(), names.toSorted());
    for (const limit of [1, 2, 5, names.length, 1_000]) {
      const pages = await pagesOf(store, {}, limit);
      assert.deepEqual(pages.flat(), all, `by ${limit}`);
      assert.ok(
        pages.every((page) => page.length <= limit),
        `at most ${limit} a page`,
      );
    }
    const enabled = names.filter((_, index) => index % 2 === 0);
    for (const limit of [1, 3]) {
      const found = (await pagesOf(store, { enabled: true }, limit)).flat();
      assert.deepEqual(found.toSorted(), enabled.toSorted());
    }
  });

  test("changes while paging do not shift later pages", async ({ store }) => {
    const [, , c, d] = await addSchedules(store, ["a", "b", "c", "d", "e"]);
    const first = await store.listSchedules({}, { limit: 3, cursor: null });
    assert.equal(first.schedules.length, 3);
    // Removes the last of the page, adds one before it, and changes a later one.
    await store.removeSchedule(c?.name ?? "");
    await addSchedule(store, { name: "aa" });
    await changeSchedule(store, d as StoredSchedule, { nextRunAt: 1 });
    const second = await store.listSchedules({}, { limit: 3, cursor: first.cursor });
    assert.deepEqual(
      second.schedules.map((schedule) => schedule.name),
      ["d", "e"],
    );
    assert.equal(second.cursor, null);
  });
}

function dueCases(test: DefineCase): void {
  test("C-12 dueSchedules returns due schedules, earliest first", async ({ store, clock }) => {
    const now = clock.now();
    assert.deepEqual(await store.dueSchedules(10), { at: now, schedules: [], nextRunAt: null });
    for (const [name, inMs] of Object.entries({ c: -MINUTE, b: 0, z: -YEAR, a: -SECOND, later: 1, latest: 2 })) {
      await addSchedule(store, { name, nextRunAt: now + inMs });
    }
    const due = await store.dueSchedules(10);
    assert.deepEqual([due.at, due.nextRunAt], [now, now + 1]);
    assert.deepEqual(dueNames(due), ["z", "c", "a", "b"]);
    await clock.advance(1);
    assert.deepEqual(dueNames(await store.dueSchedules(10)), ["z", "c", "a", "b", "later"]);
  });

  test("dueSchedules returns full records and changes nothing", async ({ store, clock }) => {
    const stored = await addSchedule(store, { ...FULL, enabled: true, nextRunAt: clock.now() });
    const after = await fireAll(store, firingOf(stored, { slots: [skippedSlot(clock.now(), "missed")] }));
    const due = { at: clock.now(), schedules: [{ ...after, slots: [] }], nextRunAt: null };
    assert.deepEqual(await store.dueSchedules(10), due);
    assert.deepEqual(await store.dueSchedules(10), due);
    assert.deepEqual(await scheduleOf(store, FULL.name), after);
  });

  test("C-13 a schedule without a next run is due first", async ({ store, clock }) => {
    await addSchedule(store, { name: "long due", nextRunAt: clock.now() - YEAR });
    await addSchedule(store, { name: "unknown", nextRunAt: null });
    await addSchedule(store, { name: "just due", nextRunAt: clock.now() });
    const all = ["unknown", "long due", "just due"];
    for (const limit of [1, 2, 3, 10]) {
      assert.deepEqual(dueNames(await store.dueSchedules(limit)), all.slice(0, limit), `at most ${limit}`);
    }
    const unknown = await scheduleOf(store, "unknown");
    await fireAll(store, firingOf(unknown, { nextRunAt: clock.now() + MINUTE }));
    const due = await store.dueSchedules(10);
    assert.deepEqual([dueNames(due), due.nextRunAt], [["long due", "just due"], clock.now() + MINUTE]);
  });

  test("a disabled schedule is never due", async ({ store, clock }) => {
    const now = clock.now();
    for (const [name, nextRunAt] of Object.entries({ past: now - 1, unknown: null, future: now + 1 })) {
      await addSchedule(store, { name, nextRunAt, enabled: false });
    }
    assert.deepEqual(await store.dueSchedules(10), { at: now, schedules: [], nextRunAt: null });
    await changeSchedule(store, await scheduleOf(store, "past"), { enabled: true });
    assert.deepEqual(dueNames(await store.dueSchedules(10)), ["past"]);
    await changeSchedule(store, await scheduleOf(store, "past"), { enabled: false });
    assert.deepEqual(dueNames(await store.dueSchedules(10)), []);
  });

  test("an ended schedule is never due", async ({ store, clock }) => {
    const ended = await addSchedule(store, { name: "ended", nextRunAt: NEVER });
    assert.equal(ended.nextRunAt, NEVER);
    const last = await addSchedule(store, { name: "last", nextRunAt: clock.now() });
    assert.equal((await fireAll(store, firingOf(last, { nextRunAt: NEVER }))).nextRunAt, NEVER);
    for (const years of [0, 1, 9]) {
      await clock.advance(years * YEAR);
      assert.deepEqual(await store.dueSchedules(10), { at: clock.now(), schedules: [], nextRunAt: null });
    }
  });

  test("dueSchedules returns at most the limit", async ({ store, clock }) => {
    const now = clock.now();
    for (let count = 1; count <= 5; count++) await addSchedule(store, { name: `s${count}`, nextRunAt: now - count });
    await addSchedule(store, { name: "next", nextRunAt: now + MINUTE });
    await addSchedule(store, { name: "after", nextRunAt: now + 2 * MINUTE });
    for (const expected of [["s5", "s4"], ["s3", "s2"], ["s1"], []]) {
      const due = await store.dueSchedules(2);
      assert.deepEqual([dueNames(due), due.nextRunAt], [expected, now + MINUTE]);
      for (const schedule of due.schedules) await fireAll(store, firingOf(schedule, { nextRunAt: now + 3 * MINUTE }));
    }
  });
}

/** The schedule `digest` with one slot that became a job and one that did not. */
async function fired(store: Store, slot: number): Promise<StoredSchedule> {
  const slots = [jobSlot("digest", slot - 1, {}, "late"), skippedSlot(slot, "missed", slot + 1)];
  return fireAll(store, firingOf(await addSchedule(store), { lastSlot: slot + 1, nextRunAt: slot + MINUTE, slots }));
}

function dueNames({ schedules }: { schedules: readonly StoredSchedule[] }): string[] {
  return schedules.map((schedule) => schedule.name);
}

async function pagesOf(store: Store, filter: ScheduleFilter, limit: number): Promise<string[][]> {
  const pages: string[][] = [];
  let cursor: string | null = null;
  do {
    const page = await store.listSchedules(filter, { limit, cursor });
    pages.push(page.schedules.map((schedule) => schedule.name));
    cursor = page.cursor;
    assert.ok(pages.length < 1_000, "paging must end");
  } while (cursor !== null);
  return pages;
}
