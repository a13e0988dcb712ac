import { describe, expect, it } from "vitest";
import { Floors, type Look, type Place } from "#src/stores/postgres/jobs/claim-cursors.js";

// From this many jobs on floors are in force.
const ENOUGH = 10_000;
// No look from the start is further away.
const LONG = 1_001;
const ALL = { queues: null, types: null };

const place = (seq: number, lane: Partial<Place> = {}): Place => ({
  queue: "default",
  priority: 0,
  type: null,
  dueAt: 1,
  seq,
  ...lane,
});

/** Floors whose lanes have come so far that they are in force, at the time 0. */
function inForce(...lanes: Place[]): Floors {
  const floors = new Floors();
  for (const lane of lanes) {
    const taken = Array.from({ length: ENOUGH }, (_, n) => ({ ...lane, seq: lane.seq - ENOUGH + 1 + n }));
    const types = lane.type === null ? null : [lane.type];
    floors.took(floors.look({ queues: [lane.queue], types }, 0), taken, 0);
  }
  return floors;
}

/** Where a look begins, lane by lane; lanes that are not named begin at the very start. */
function begins({ columns }: Look): Record<string, number> {
  const [queues, priorities, , , seqs] = columns as [string[], number[], unknown, unknown, number[]];
  return Object.fromEntries(queues.map((queue, at) => [`${queue} ${priorities[at]}`, seqs[at] ?? 0]));
}

describe("the floor of a lane", () => {
  it("is in force once enough was taken, and until it is time to look from the start", () => {
    const floors = inForce(place(20_000));
    expect(begins(floors.look(ALL, 1))).toEqual({ "default 0": 20_000 });
    expect(floors.look(ALL, 1).whole).toBe(false);
    expect(floors.look(ALL, LONG).whole).toBe(true);
  });

  it("goes down to where a look from the start found jobs below it, and those behind them are next", () => {
    const floors = inForce(place(20_000));
    floors.took(floors.look(ALL, LONG), [place(5), place(6)], LONG);
    expect(begins(floors.look(ALL, LONG + 1))).toEqual({ "default 0": 6 });
    floors.took(floors.look(ALL, LONG + 1), [place(7), place(20_001)], LONG + 1);
    expect(begins(floors.look(ALL, LONG + 2))).toEqual({ "default 0": 20_001 });
  });

  it("goes down in every lane that the look saw no further of", () => {
    const floors = inForce(place(20_000, { queue: "a" }), place(20_000, { queue: "b" }));
    floors.took(floors.look(ALL, LONG), [place(6, { queue: "a" })], LONG);
    expect(begins(floors.look(ALL, LONG + 1))).toEqual({ "a 0": 6, "b 0": 6 });
  });

  it("and comes up again in all of them, whichever the jobs are taken from", () => {
    const floors = inForce(place(20_000, { queue: "a" }), place(20_000, { queue: "b" }));
    floors.took(floors.look(ALL, LONG), [place(6, { queue: "a" })], LONG);
    floors.took(floors.look(ALL, LONG + 1), [place(20_001, { queue: "a" })], LONG + 1);
    expect(begins(floors.look(ALL, LONG + 2))).toEqual({ "a 0": 20_001, "b 0": 20_001 });
  });

  it("and where nothing is left of a priority, in its lanes at once", () => {
    const floors = inForce(place(30_000, { priority: 5 }), place(20_000));
    floors.took(floors.look(ALL, LONG), [place(6, { priority: 5 })], LONG);
    expect(begins(floors.look(ALL, LONG + 1))).toEqual({ "default 5": 6 });
    floors.took(floors.look(ALL, LONG + 1), [place(7, { priority: 5 }), place(20_001)], LONG + 1);
    expect(begins(floors.look(ALL, LONG + 2))).toEqual({ "default 5": 30_000, "default 0": 20_001 });
  });

  it("is not raised by a claim that began before it went down", () => {
    const floors = inForce(place(20_000));
    const [fromFloor, fromStart] = [floors.look(ALL, 1), floors.look(ALL, LONG)];
    floors.took(floors.look(ALL, LONG), [place(6)], LONG);
    floors.took(fromFloor, [place(20_001)], LONG);
    floors.took(fromStart, [place(20_002)], LONG);
    expect(begins(floors.look(ALL, LONG + 1))).toEqual({ "default 0": 6 });
  });

  it("stays where the later of two claims ended, if that one is answered first", () => {
    const floors = inForce(place(20_000));
    const [one, other] = [floors.look(ALL, 1), floors.look(ALL, 1)];
    floors.took(other, [place(20_002)], 1);
    floors.took(one, [place(20_001)], 1);
    expect(begins(floors.look(ALL, 2))).toEqual({ "default 0": 20_002 });
  });

  it.each([
    ["two queues and types that read the same one after the other", { queue: "a b", type: "c" }],
    ["types of one queue", { queue: "a", type: "c" }],
  ])("is its own: %s", (_what, lane) => {
    const floors = inForce(place(20_000, { queue: "a", type: "b c" }), place(30_000, lane));
    expect(floors.look(ALL, 1).columns[4]).toEqual([20_000, 30_000]);
  });
});

describe("the time to look at a lane from the start", () => {
  it("is not put off by claims on other queues", () => {
    const floors = inForce(place(20_000, { queue: "a" }), place(20_000, { queue: "b" }));
    const onlyA = { queues: ["a"], types: null };
    floors.took(floors.look(onlyA, LONG), [place(20_001, { queue: "a" })], LONG);
    expect(begins(floors.look(onlyA, LONG + 1))).toEqual({ "a 0": 20_001 });
    expect(floors.look({ queues: ["b"], types: null }, LONG + 1).whole).toBe(true);
  });

  it("nor by claims for other types", () => {
    const floors = inForce(place(20_000, { type: "a" }), place(20_000, { type: "b" }));
    const onlyA = { queues: null, types: ["a"] };
    floors.took(floors.look(onlyA, LONG), [place(20_001, { type: "a" })], LONG);
    expect(floors.look({ queues: null, types: ["b"] }, LONG + 1).whole).toBe(true);
  });

  it("nor by claims that jobs of higher priority filled", () => {
    const floors = inForce(place(20_000, { priority: 5 }), place(20_000));
    floors.took(floors.look(ALL, LONG), [place(20_001, { priority: 5 })], LONG);
    expect(begins(floors.look(ALL, LONG + 1))).toEqual({ "default 5": 20_001 });
  });

  it("is the same for all lanes of a priority, so that one claim looks at all of them", () => {
    const floors = inForce(place(20_000, { queue: "a" }), place(20_000, { queue: "b" }));
    const onlyA = { queues: ["a"], types: null };
    floors.took(floors.look(onlyA, LONG), [place(20_001, { queue: "a" })], LONG);
    expect(floors.look(ALL, LONG + 1).whole).toBe(true);
  });

  it.each([
    ["a quarter of a second", 1, 250],
    ["twenty times as long as the look took, if that is more", 20, 400],
    ["a second, if that is more still", 200, 1_000],
  ])("comes after %s", (_what, tookMs, restMs) => {
    const floors = inForce(place(20_000));
    const answeredAt = LONG + tookMs;
    floors.took(floors.look(ALL, LONG), [place(20_001)], answeredAt);
    expect(floors.look(ALL, answeredAt + restMs - 1).whole).toBe(false);
    expect(floors.look(ALL, answeredAt + restMs).whole).toBe(true);
  });
});

it("a claim that came back short ends the floors of its own lanes only", () => {
  const floors = inForce(place(20_000, { queue: "a" }), place(20_000, { queue: "b" }));
  floors.clear({ queues: ["a"], types: null });
  expect(begins(floors.look(ALL, 1))).toEqual({ "b 0": 20_000 });
});
