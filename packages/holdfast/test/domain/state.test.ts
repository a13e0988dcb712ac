import { STATE_NAMES, STATES, type State } from "holdfast";
import { describe, expect, it } from "vitest";
import { countClaim, isFinished, isLeased, isState, isWaiting, TRANSITIONS } from "#src/job/state.js";

const of = (kind: string): State[] => STATE_NAMES.filter((state) => STATES[state].kind === kind);

describe("the state table", () => {
  it("C-01 has seven states with kind and meaning", () => {
    expect(of("waiting")).toEqual(["pending", "failed"]);
    expect(of("leased")).toEqual(["claimed", "running"]);
    expect(of("finished")).toEqual(["completed", "dead", "cancelled"]);
    for (const state of STATE_NAMES) expect(STATES[state].meaning).not.toBe("");
  });

  it("isState accepts only its states", () => {
    expect(STATE_NAMES.every(isState)).toBe(true);
    for (const other of ["queued", "", "constructor", "__proto__", null, 1]) expect(isState(other)).toBe(false);
  });

  it("each state has exactly one kind", () => {
    for (const state of STATE_NAMES) {
      expect([isWaiting(state), isLeased(state), isFinished(state)].filter(Boolean)).toHaveLength(1);
    }
  });
});

describe("the transitions", () => {
  it("connect existing states", () => {
    expect(Object.keys(TRANSITIONS).toSorted()).toEqual([...STATE_NAMES].toSorted());
    for (const targets of Object.values(TRANSITIONS)) {
      expect(targets.every(isState)).toBe(true);
      expect(new Set(targets).size).toBe(targets.length);
    }
  });

  it("completed is final; dead and cancelled lead only to pending", () => {
    expect(TRANSITIONS.completed).toEqual([]);
    expect(TRANSITIONS.dead).toEqual(["pending"]);
    expect(TRANSITIONS.cancelled).toEqual(["pending"]);
  });

  it("only waiting and leased jobs are claimable", () => {
    const into = (target: State): State[] => STATE_NAMES.filter((state) => TRANSITIONS[state].includes(target));
    expect(into("claimed")).toEqual(["pending", "claimed", "running", "failed"]);
    expect(into("running")).toEqual(["claimed"]);
    expect(into("completed")).toEqual(["claimed", "running"]);
    expect(into("failed")).toEqual(["claimed", "running"]);
  });

  it("pending reaches every state, live states every end", () => {
    const reach = (from: State): Set<State> => {
      const seen = new Set<State>([from]);
      for (const state of seen) for (const next of TRANSITIONS[state]) seen.add(next);
      return seen;
    };
    expect(reach("pending").size).toBe(STATE_NAMES.length);
    for (const state of [...of("waiting"), ...of("leased")]) {
      for (const end of of("finished")) expect(reach(state)).toContain(end);
    }
  });
});

describe("counters after a claim", () => {
  const claim = (state: State, attempt: number, losses = 0, maxAttempts = 3) =>
    countClaim({ state, attempt, maxAttempts, losses });

  it("the first claim is attempt 1", () => {
    expect(claim("pending", 0)).toEqual({ attempt: 1, losses: 0, lost: false, exhausted: false });
  });
  it("a retry increases the attempt", () => {
    expect(claim("failed", 2)).toEqual({ attempt: 3, losses: 0, lost: false, exhausted: false });
  });
  it("a lease expired while running uses its attempt", () => {
    expect(claim("running", 1)).toEqual({ attempt: 2, losses: 1, lost: true, exhausted: false });
  });
  it("the first lease expired before start is not counted", () => {
    expect(claim("claimed", 1)).toEqual({ attempt: 1, losses: 1, lost: true, exhausted: false });
    expect(claim("claimed", 1, 1)).toEqual({ attempt: 2, losses: 2, lost: true, exhausted: false });
  });
  it("without attempts left, the job is exhausted", () => {
    expect(claim("running", 3)).toEqual({ attempt: 3, losses: 1, lost: true, exhausted: true });
    expect(claim("claimed", 3, 1)).toEqual({ attempt: 3, losses: 2, lost: true, exhausted: true });
    expect(claim("claimed", 3)).toEqual({ attempt: 3, losses: 1, lost: true, exhausted: false });
  });
  it("a job with one attempt ends after two crashes", () => {
    const first = claim("pending", 0, 0, 1);
    const second = claim("claimed", first.attempt, first.losses, 1);
    const third = claim("claimed", second.attempt, second.losses, 1);
    expect([first, second, third].map((count) => count.exhausted)).toEqual([false, false, true]);
  });
});
