import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { holdfast } from "holdfast";
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { postgresBed } from "#src/bed-postgres.js";
import type { Bed } from "#src/bed.js";
import { noop, payload } from "#src/jobs.js";
import { openRawPostgres } from "#src/raw-postgres.js";

// The baseline must write the same rows as Holdfast, otherwise the ratio is meaningless.

const JOBS = 20;
let folder: string;
let bed: Bed;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "holdfast-bench-test-"));
  bed = await postgresBed(folder);
}, 60_000);
afterAll(async () => {
  await bed.close();
  await rm(folder, { recursive: true, force: true });
}, 60_000);

/** Rows without ids, names and times. */
async function contents(url: string): Promise<unknown> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const unlike = new Set(["seq", "id", "worker", "at"]);
  const blurred = (row: object): unknown =>
    Object.fromEntries(
      Object.entries(row).map(([name, value]) => [
        name,
        value !== null && (unlike.has(name) || name.endsWith("_at")) ? "set" : (value as unknown),
      ]),
    );
  const all = async (text: string): Promise<unknown[]> => (await client.query<object>(text)).rows.map(blurred);
  const rows = {
    live: await all("SELECT * FROM holdfast.live ORDER BY seq"),
    archive: await all("SELECT * FROM holdfast.archive ORDER BY seq"),
    lanes: await all("SELECT * FROM holdfast.lanes"),
    deltas: await all(
      "SELECT queue, type, state, ended, sum(n) AS n FROM holdfast.deltas GROUP BY 1, 2, 3, 4 ORDER BY 3, 4",
    ),
  };
  await client.end();
  return rows;
}

it("writes the same rows in the baseline and in Holdfast", async () => {
  const [ours, theirs] = [await bed.place([]), await bed.place([])];
  const type = noop(() => {});
  const hf = await holdfast({ store: ours.url, jobs: [type] });
  const raw = await openRawPostgres(theirs.url);
  try {
    await hf.enqueueMany(
      type,
      Array.from({ length: JOBS }, () => payload()),
    );
    await raw.insert(JOBS);
    expect(await contents(theirs.url)).toEqual(await contents(ours.url));

    expect(await hf.drain()).toBe(JOBS);
    const leases = await raw.claim(JOBS);
    expect(leases).toHaveLength(JOBS);
    await raw.settle(leases);
    expect(await contents(theirs.url)).toEqual(await contents(ours.url));
    expect(await raw.claim(1)).toEqual([]);
  } finally {
    await raw.close();
    await hf.close();
  }
});

it("fills a template that Holdfast reads correctly", async () => {
  const place = await bed.place([
    { kind: "expired", count: 3 },
    { kind: "other", count: 4 },
    { kind: "finished", count: 5 },
    { kind: "future", count: 6 },
    { kind: "due", count: 7, inputBytes: 8_192 },
  ]);
  let bytes = 0;
  const type = noop((input) => void (bytes = JSON.stringify(input).length));
  const hf = await holdfast({ store: place.url, jobs: [type], logger: false });
  try {
    expect((await hf.stats()).states).toMatchObject({ pending: 20, completed: 5, dead: 0 });
    expect(await hf.drain({ types: [type] })).toBe(7);
    expect(bytes).toBe(8_192);
    expect((await hf.stats()).states).toMatchObject({ pending: 10, completed: 12, dead: 3 });
  } finally {
    await hf.close();
  }
});
