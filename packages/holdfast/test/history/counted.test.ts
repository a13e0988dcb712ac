import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LIMITS } from "#src/defaults.js";
import { Histogram } from "#src/history/histogram.js";
import { COUNTERS, Counts, OTHERS, type Counted, type Depth } from "#src/history/counted.js";

/** The pairs that a record has at most, besides the one of all others. */
const MAX_PAIRS = 300;
const MAX_IN_MEMORY = 3_000;

function find(counts: Counts, queue: string, type: string): Counted | undefined {
  return [...counts.values()].find((each) => each.queue === queue && each.type === type);
}

/** The sum of each counter and of both histograms. */
function totals(counts: Counts): number[] {
  const sums = COUNTERS.map((counter) => [...counts.values()].reduce((sum, each) => sum + each[counter], 0));
  const timed = (which: "wait" | "run"): number =>
    [...counts.values()].reduce((sum, each) => sum + each[which].total, 0);
  return [...sums, timed("wait"), timed("run")];
}

const NAME = fc.constantFrom("a", "b", "c", OTHERS, "ünï 漢字 \u{1f9d1}", `it's "quoted" \\`);
const EVENT = fc.record({ queue: NAME, type: NAME, counter: fc.constantFrom(...COUNTERS), ms: fc.nat(100_000) });

function countsOf(
  events: readonly { queue: string; type: string; counter: (typeof COUNTERS)[number]; ms: number }[],
): Counts {
  const counts = new Counts();
  for (const { queue, type, counter, ms } of events) {
    const counted = counts.of(queue, type);
    counted[counter]++;
    counted.wait.add(ms);
    counted.run.add(2 * ms);
  }
  return counts;
}

describe("the counts of a record", () => {
  it("are the same after JSON", () => {
    fc.assert(
      fc.property(fc.array(EVENT), (events) => {
        const counts = countsOf(events);
        const read = Counts.parse(counts.toText());
        expect(read.toText()).toBe(counts.toText());
        expect(totals(read)).toEqual(totals(counts));
      }),
    );
  });

  it("have the error groups with the most failed attempts", () => {
    const counts = new Counts();
    // More than are counted in memory, and more of those than a record has.
    for (let nth = 0; nth < 1_500; nth++) counts.addErrors(`f${nth}`, nth + 1);
    expect([counts.isEmpty, counts.errors.size]).toEqual([false, 1_000]);
    const kept = Counts.parseErrors(counts.toText());
    expect(kept).toHaveLength(200);
    expect([kept[0], kept.at(-1)]).toEqual([
      ["f999", 1_000],
      ["f800", 801],
    ]);
    const both = Counts.parse(counts.toText());
    both.merge(Counts.parse('{"counts":[],"errors":{"f999":5,"new":1,"damaged":-1,"text":"2"}}'));
    expect([both.errors.get("f999"), both.errors.get("new"), both.errors.size]).toEqual([1_005, 1, 201]);
    expect([...Counts.parse('{"counts":[],"errors":[3]}').errors, ...Counts.parseErrors("damaged")]).toEqual([
      ["0", 3],
    ]);
  });

  it("keep depths, with and without due jobs", () => {
    const counts = new Counts();
    expect([counts.isEmpty, Counts.parse(counts.toText()).depths]).toEqual([true, null]);
    const depths = [
      { queue: "a", waiting: 5, leased: 1, oldestDueMs: 1_000 },
      { queue: "b", waiting: 0, leased: 0, oldestDueMs: null },
    ];
    counts.depths = depths;
    expect(counts.isEmpty).toBe(false);
    expect(Counts.parse(counts.toText()).depths).toEqual(depths);
    counts.depths = [];
    expect(Counts.parse(counts.toText()).depths).toEqual([]);
  });

  it("merge is the same as counting everything", () => {
    fc.assert(
      fc.property(fc.array(EVENT), fc.array(EVENT), (some, others) => {
        const merged = countsOf(some);
        merged.merge(countsOf(others));
        expect(merged.toText()).toBe(countsOf([...some, ...others]).toText());
      }),
    );
  });

  it("merge keeps the depths of the later record", () => {
    const depth = (waiting: number): Depth[] => [{ queue: "a", waiting, leased: 0, oldestDueMs: null }];
    const [first, second, third] = [new Counts(), new Counts(), new Counts()];
    [first.depths, second.depths] = [depth(1), depth(2)];
    first.merge(second);
    first.merge(third);
    expect(first.depths).toEqual(depth(2));
  });

  it("have the busiest pairs, even if they come late", () => {
    const counts = new Counts();
    for (let n = 0; n < 1_000; n++) counts.of("q", `t${n}`).enqueued++;
    counts.of("q", "late").enqueued = 50;
    const read = Counts.parse(counts.toText());
    expect(find(read, "q", "late")?.enqueued).toBe(50);
    expect(totals(read)).toEqual(totals(counts));
    const more = new Counts();
    more.of("q", "later").completed = 20;
    read.merge(more);
    expect(find(Counts.parse(read.toText()), "q", "later")?.completed).toBe(20);
    expect(find(Counts.parse(read.toText()), "q", "late")?.enqueued).toBe(50);
  });

  it("have the depth of all queues, however many there are", () => {
    const counts = new Counts();
    counts.depths = Array.from({ length: 1_000 }, (_, n): Depth => {
      return { queue: `q${n}`, waiting: 1_000 - n, leased: 1, oldestDueMs: n === 999 ? 5_000 : null };
    });
    const depths = Counts.parse(counts.toText()).depths ?? [];
    expect(depths.length).toBe(MAX_PAIRS);
    expect(depths[0]).toEqual({ queue: "q0", waiting: 1_000, leased: 1, oldestDueMs: null });
    expect(depths.at(-1)).toMatchObject({ queue: OTHERS, oldestDueMs: 5_000 });
    expect(depths.reduce((sum, { waiting }) => sum + waiting, 0)).toBe(500_500);
  });

  it("merge leaves the other record unchanged", () => {
    const [first, second] = [new Counts(), countsOf([{ queue: "a", type: "t", counter: "dead", ms: 5 }])];
    first.merge(second);
    first.of("a", "t").dead++;
    first.of("a", "t").run.add(5);
    expect(totals(second)).toEqual([0, 0, 0, 1, 0, 1, 1]);
  });

  it.each([
    "",
    "null",
    "5",
    '"x"',
    "[]",
    "{",
    '{"counts":5,"depths":{}}',
    '{"counts":[null,5,["a"],["a",5,1],[1,"t",1]],"depths":[null,["a"],["a",-1,0,0],[5,1,1,1]]}',
    '{"__proto__":{"counts":[]}}',
  ])("leave out damaged entries of %j", (json) => {
    expect([...Counts.parse(json).values()]).toEqual([]);
    expect(Counts.parse(json).depths ?? []).toEqual([]);
  });

  it("leave out damaged numbers only", () => {
    const json = '{"counts":[["a","t",1,-1,0.5,"2",4,[[1,1],[2,"x"]],null]],"depths":[["a",1,2,-5]]}';
    const counts = Counts.parse(json);
    expect(totals(counts)).toEqual([1, 0, 0, 0, 4, 1, 0]);
    expect(counts.depths).toEqual([{ queue: "a", waiting: 1, leased: 2, oldestDueMs: null }]);
  });

  it("of more pairs than the limits are added up", () => {
    const counts = new Counts();
    for (let nth = 0; nth < 10_000; nth++) counts.of("q", `t${nth}`).completed++;
    expect([...counts.values()]).toHaveLength(MAX_IN_MEMORY + 1);
    expect(find(counts, "q", "t299")?.completed).toBe(1);
    expect(find(counts, OTHERS, OTHERS)?.completed).toBe(10_000 - MAX_IN_MEMORY);
    const merged = new Counts();
    for (let nth = 0; nth < 5; nth++) merged.merge(counts);
    expect([...merged.values()]).toHaveLength(MAX_IN_MEMORY + 1);
    const read = Counts.parse(merged.toText());
    expect([...read.values()]).toHaveLength(MAX_PAIRS + 1);
    for (const each of [merged, read]) expect(totals(each)).toEqual([0, 50_000, 0, 0, 0, 0, 0]);
  });

  it("are bounded for a queue named like the others", () => {
    const counts = new Counts();
    for (let nth = 0; nth < 1_000; nth++) counts.of(OTHERS, `t${nth}`).completed++;
    const read = Counts.parse(counts.toText());
    expect([...read.values()].length).toBeLessThanOrEqual(MAX_PAIRS + 1);
    expect(totals(read)[1]).toBe(1_000);
  });

  it("keep the busiest pairs within the size limit", () => {
    const counts = new Counts();
    const name = (length: number, nth: number): string => `${nth} ${"漢".repeat(length)}`.slice(0, length);
    for (let nth = 0; nth < MAX_PAIRS; nth++) {
      const counted = counts.of(name(LIMITS.queueLength, nth), name(LIMITS.typeLength, nth));
      counted.completed += nth;
      counted.run.merge(Histogram.fromJSON(Array.from({ length: 20 }, (_, bucket) => [bucket, 1_000_000_000 + nth])));
    }
    counts.depths = Array.from({ length: 1_000 }, (_, nth) => {
      return { queue: name(LIMITS.queueLength, nth), waiting: 1e15, leased: 1e15, oldestDueMs: 1e15 };
    });
    const text = counts.toText();
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(LIMITS.historyBytes);
    const read = Counts.parse(text);
    expect(totals(read)).toEqual(totals(counts));
    const [busiest, idlest] = [MAX_PAIRS - 1, 0].map((nth) => name(LIMITS.queueLength, nth));
    const queues = [...read.values()].map(({ queue }) => queue);
    expect(queues).toContain(busiest);
    expect(queues).not.toContain(idlest);
    expect(queues).toContain(OTHERS);
  });
});
