import assert from "node:assert/strict";
import { LIMITS } from "../../defaults.js";
import type { AuditEntry, AuditFilter, Store, StoredAuditEntry } from "../../store.js";
import { MINUTE, newEntry, SECOND } from "./builders.js";
import { handlesOf, type DefineCase } from "./scene.js";

const DAY = 24 * 60 * MINUTE;
const ODD = `naïve Ω 漢字 \u{1f9d1}\u200d\u{1f680} it's "quoted" \\ $1 ? % _ -- #`;

export function auditCases(test: DefineCase): void {
  entryCases(test);
  filterCases(test);
  pageCases(test);
  purgeCases(test);
}

function entryCases(test: DefineCase): void {
  test("an empty log is an empty page", async ({ store }) => {
    await store.audit([]);
    for (const filter of [{}, { actor: "a" }, { action: "a" }, { actor: "a", action: "a", after: 0, before: 1 }]) {
      assert.deepEqual(await store.listAudit(filter, { limit: 10, cursor: null }), { entries: [], cursor: null });
    }
  });

  test("B-18 stores every field of an entry", async ({ store, clock }) => {
    const detail = JSON.stringify({ [ODD]: "x".repeat(LIMITS.auditDetailBytes / 2), big: 1e21 });
    const full = newEntry({ actor: `user:${ODD}`, action: ODD, target: ODD, count: Number.MAX_SAFE_INTEGER, detail });
    await store.audit([full]);
    const first = clock.now();
    await clock.advance(SECOND);
    const bare = newEntry({ target: null, count: 0, detail: null, keepMs: 90 * DAY });
    await store.audit([bare]);
    assert.deepEqual(await all(store), [stored(bare, clock.now()), stored(full, first)]);
  });

  test("B-18 orders entries by time, then id, descending", async ({ store, clock }) => {
    const entries = Array.from({ length: 6 }, () => newEntry());
    await store.audit([entries[1], entries[0]] as AuditEntry[]);
    await store.audit([entries[2]] as AuditEntry[]);
    await clock.advance(1);
    // Created earlier and written later.
    await store.audit([entries[4], entries[3]] as AuditEntry[]);
    await clock.advance(40 * DAY);
    await store.audit([entries[5]] as AuditEntry[]);
    assert.deepEqual(await ids(store), idsOf(entries).toReversed());
  });

  test("an entry with an existing id is not added again", async ({ store, clock }) => {
    const entry = newEntry({ target: "first" });
    const at = clock.now();
    await store.audit([entry, entry]);
    // Into the next month.
    await clock.advance(31 * DAY);
    const other = newEntry();
    await store.audit([{ ...entry, target: "second", actor: "someone else" }, other]);
    assert.deepEqual(await all(store), [stored(other, clock.now()), stored(entry, at)]);
    assert.deepEqual(await ids(store, { actor: "someone else" }), []);
  });

  test("adds the maximum number of entries in one call", async ({ store }) => {
    const detail = JSON.stringify("x".repeat(LIMITS.auditDetailBytes - 2));
    const entries = Array.from({ length: LIMITS.auditEntries }, () => newEntry({ detail }));
    await store.audit(entries);
    assert.deepEqual(await ids(store), idsOf(entries).toReversed());
  });

  test("keeps an entry at least for keepMs", async ({ store, clock }) => {
    const entry = newEntry({ keepMs: 10 * DAY });
    const kept = newEntry({ keepMs: null });
    await store.audit([entry, kept]);
    await clock.advance(10 * DAY - 1);
    assert.deepEqual(await ids(store), idsOf([kept, entry]));
    await clock.advance(1_000 * DAY);
    assert.ok((await ids(store)).includes(kept.id), "an entry without keepMs stays");
  });

  test.live([], "concurrent calls add each entry once", async (scene) => {
    const handles = await handlesOf(scene, 4);
    const own = handles.map(() => Array.from({ length: 10 }, () => newEntry()));
    const shared = Array.from({ length: 5 }, () => newEntry());
    await Promise.all(
      handles.flatMap((handle, at) => [
        ...(own[at] ?? []).map((entry) => handle.audit([entry])),
        handle.audit(shared),
        handle.audit(shared.toReversed()),
      ]),
    );
    const expected = idsOf([...own.flat(), ...shared]);
    assert.deepEqual((await ids(scene.store)).toSorted(), expected.toSorted());
  });
}

function filterCases(test: DefineCase): void {
  test("B-18 list filters by actor, action and both", async ({ store, clock }) => {
    const entries: AuditEntry[] = [];
    for (const actor of ["ada", "Ada", "ada ", "a%"]) {
      for (const action of ["jobs.retry", "jobs", "queues.pause"]) entries.push(newEntry({ actor, action }));
    }
    for (const entry of entries) {
      await store.audit([entry]);
      await clock.advance(DAY * 5);
    }
    const newest = entries.toReversed();
    for (const actor of ["ada", "Ada", "ada ", "a%", "unknown"]) {
      assert.deepEqual(await ids(store, { actor }), idsOf(newest.filter((entry) => entry.actor === actor)));
    }
    for (const action of ["jobs.retry", "jobs", "queues.pause", "jobs."]) {
      assert.deepEqual(await ids(store, { action }), idsOf(newest.filter((entry) => entry.action === action)));
    }
    const [both] = entries.filter(({ actor, action }) => actor === "Ada" && action === "jobs");
    assert.deepEqual(await ids(store, { actor: "Ada", action: "jobs" }), [both?.id]);
    assert.deepEqual(await ids(store, { actor: "Ada", action: "nothing" }), []);
  });

  test("B-18 list filters by time: after inclusive, before exclusive", async ({ store, clock }) => {
    const entries: AuditEntry[] = [];
    const times: number[] = [];
    for (let nth = 0; nth < 6; nth++) {
      entries.push(newEntry({ actor: nth % 2 === 0 ? "even" : "odd" }));
      times.push(clock.now());
      await store.audit(entries.slice(-1));
      await clock.advance(12 * DAY);
    }
    const from = (nth: number): number => times[nth] ?? 0;
    const some = (...nths: number[]): string[] => idsOf(nths.map((nth) => entries[nth] as AuditEntry));
    assert.deepEqual(await ids(store, { after: from(4) }), some(5, 4));
    assert.deepEqual(await ids(store, { after: from(4) + 1 }), some(5));
    assert.deepEqual(await ids(store, { before: from(2) }), some(1, 0));
    assert.deepEqual(await ids(store, { before: from(2) + 1 }), some(2, 1, 0));
    assert.deepEqual(await ids(store, { after: from(1), before: from(4) }), some(3, 2, 1));
    assert.deepEqual(await ids(store, { actor: "odd", after: from(1), before: from(5) }), some(3, 1));
    assert.deepEqual(await ids(store, { after: from(3), before: from(3) }), []);
    assert.deepEqual(await ids(store, { after: from(3), before: from(1) }), []);
    assert.deepEqual(await ids(store, { after: 0, before: 8_640_000_000_000_000 }), some(5, 4, 3, 2, 1, 0));
    assert.deepEqual(await ids(store, { after: 8_640_000_000_000_000 }), []);
  });
}

function pageCases(test: DefineCase): void {
  test("pages continue over months while entries are added", async (scene) => {
    const { store, clock } = scene;
    const entries: AuditEntry[] = [];
    for (let nth = 0; nth < 12; nth++) {
      const some = [newEntry(), newEntry()];
      entries.push(...some);
      await store.audit(some);
      if (nth % 3 === 2) await clock.advance(20 * DAY);
    }
    const found: string[] = [];
    let cursor: string | null = null;
    do {
      const page = await store.listAudit({}, { limit: 5, cursor });
      assert.ok(page.entries.length <= 5, "a page has no more than its limit");
      found.push(...idsOf(page.entries));
      cursor = page.cursor;
      await store.audit([newEntry(), newEntry()]);
      await clock.advance(DAY);
    } while (cursor !== null);
    assert.deepEqual(found, idsOf(entries).toReversed());
  });

  test("a cursor works with a different filter", async ({ store, clock }) => {
    const entries = Array.from({ length: 6 }, (_, nth) => newEntry({ actor: nth % 2 === 0 ? "even" : "odd" }));
    const times: number[] = [];
    for (const entry of entries) {
      times.push(clock.now());
      await store.audit([entry]);
      await clock.advance(SECOND);
    }
    const { cursor } = await store.listAudit({}, { limit: 2, cursor: null });
    const found = async (filter: AuditFilter): Promise<string[]> =>
      idsOf((await store.listAudit(filter, { limit: 9, cursor })).entries);
    const some = (...nths: number[]): string[] => idsOf(nths.map((nth) => entries[nth] as AuditEntry));
    assert.deepEqual(await found({ before: times[2] ?? 0 }), some(1, 0));
    assert.deepEqual(await found({ before: times[5] ?? 0 }), some(3, 2, 1, 0));
    assert.deepEqual(await found({ before: times[4] ?? 0 }), some(3, 2, 1, 0));
    assert.deepEqual(await found({ after: times[3] ?? 0 }), some(3));
    assert.deepEqual(await found({ after: times[5] ?? 0 }), []);
    assert.deepEqual(await found({ actor: "odd" }), some(3, 1));
  });

  test("a full last page has no cursor", async ({ store }) => {
    await store.audit([newEntry(), newEntry(), newEntry()]);
    assert.equal((await store.listAudit({}, { limit: 3, cursor: null })).cursor, null);
    const { cursor } = await store.listAudit({}, { limit: 2, cursor: null });
    const rest = await store.listAudit({}, { limit: 1, cursor });
    assert.deepEqual([rest.entries.length, rest.cursor], [1, null]);
  });

  test("finds a rare entry among a thousand others", async ({ store, clock }) => {
    const rare = [newEntry({ actor: "rare", action: "rare" }), newEntry({ actor: "rare", action: "other" })];
    await store.audit(rare);
    for (let nth = 0; nth < 21; nth++) {
      await store.audit(Array.from({ length: LIMITS.auditEntries }, () => newEntry()));
      await clock.advance(MINUTE);
    }
    assert.deepEqual(await ids(store, { actor: "rare" }, 1), idsOf(rare).toReversed());
    assert.deepEqual(await ids(store, { action: "rare" }, 1), idsOf(rare.slice(0, 1)));
    assert.deepEqual(await ids(store, { actor: "rare", action: "other" }, 1), idsOf(rare.slice(1)));
    assert.equal((await ids(store, { actor: "token:deploy" }, 400)).length, 21 * LIMITS.auditEntries);
    assert.equal((await ids(store, {}, LIMITS.listPage)).length, 21 * LIMITS.auditEntries + 2);
  });

  test("refuses an invalid cursor", async ({ store }) => {
    for (const cursor of [
      "",
      "1",
      "'; DROP TABLE",
      "1_2",
      `9999999999999999_${newEntry().id}`,
      `1_${newEntry().id}0`,
    ]) {
      const refused = { code: "INVALID_OPTION", field: "cursor" };
      await assert.rejects(store.listAudit({}, { limit: 1, cursor }), refused, cursor);
    }
  });
}

function purgeCases(test: DefineCase): void {
  test("purge deletes only entries before a time", async ({ store, clock }) => {
    const old = newEntry();
    await store.audit([old]);
    await clock.advance(DAY);
    const young = newEntry();
    await store.audit([young]);
    assert.equal(await store.purgeAudit({ before: clock.now() - DAY, limit: 10 }), 0);
    assert.equal(await store.purgeAudit({ before: clock.now(), limit: 10 }), 1);
    assert.equal(await store.purgeAudit({ before: clock.now(), limit: 10 }), 0);
    assert.deepEqual(await ids(store), [young.id]);
    await store.audit([old]);
    assert.deepEqual(await all(store), [stored(young, clock.now()), stored(old, clock.now())].toSorted(newestFirst));
  });

  test("purge deletes oldest first, up to its limit", async ({ store, clock }) => {
    const entries: AuditEntry[] = [];
    for (let nth = 0; nth < 9; nth++) {
      entries.push(newEntry());
      await store.audit(entries.slice(-1));
      await clock.advance(15 * DAY);
    }
    const before = clock.now() - 30 * DAY;
    const left = async (limit: number): Promise<[removed: number, left: string[]]> => {
      const removed = await store.purgeAudit({ before, limit });
      return [removed, (await ids(store)).toReversed()];
    };
    assert.deepEqual(await left(3), [3, idsOf(entries.slice(3))]);
    assert.deepEqual(await left(1), [1, idsOf(entries.slice(4))]);
    assert.deepEqual(await left(500), [3, idsOf(entries.slice(7))]);
    assert.deepEqual(await left(500), [0, idsOf(entries.slice(7))]);
    assert.equal(await store.purgeAudit({ before: clock.now(), limit: 500 }), 2);
    const last = newEntry();
    await store.audit([last]);
    assert.deepEqual(await ids(store), [last.id]);
  });

  test("paging continues after a purge", async ({ store, clock }) => {
    const entries = Array.from({ length: 6 }, () => newEntry());
    for (const entry of entries) {
      await store.audit([entry]);
      await clock.advance(SECOND);
    }
    const { cursor } = await store.listAudit({}, { limit: 2, cursor: null });
    await store.purgeAudit({ before: clock.now(), limit: 2 });
    const rest = await store.listAudit({}, { limit: 9, cursor });
    assert.deepEqual(idsOf(rest.entries), idsOf(entries.slice(2, 4)).toReversed());
  });
}

function stored({ keepMs: _kept, ...entry }: AuditEntry, at: number): StoredAuditEntry {
  return { ...entry, at };
}

function newestFirst(a: StoredAuditEntry, b: StoredAuditEntry): number {
  return b.at - a.at || (a.id < b.id ? 1 : -1);
}

function idsOf(entries: readonly { id: string }[]): string[] {
  return entries.map(({ id }) => id);
}

/** Every matching entry, page by page. */
async function all(store: Store, filter: AuditFilter = {}, limit = 100): Promise<StoredAuditEntry[]> {
  const found: StoredAuditEntry[] = [];
  let cursor: string | null = null;
  do {
    const page = await store.listAudit(filter, { limit, cursor });
    assert.ok(page.entries.length <= limit, "a page has no more than its limit");
    found.push(...page.entries);
    cursor = page.cursor;
  } while (cursor !== null);
  return found;
}

async function ids(store: Store, filter: AuditFilter = {}, limit = 100): Promise<string[]> {
  return idsOf(await all(store, filter, limit));
}
