import { describe, expect, it } from "vitest";
import { check, RULES, type Rule } from "#src/torture/checker.js";
import type { Evidence } from "#src/torture/evidence.js";
import {
  after,
  CALLED,
  CHILD,
  ACTIONS,
  endedJob,
  EVENT,
  evidence,
  OUTPUT,
  STEPS,
  stepOf,
  withStep,
} from "./evidence.js";

const END = ACTIONS.length;
const asleepOn = (step: string, topic: string): Evidence["asleep"] => [{ job: "main", step, topic, at: END }];
const CLAIMED = { did: "claimed", job: "main", fence: 2 } as const;

/** Evidence that breaks a rule. */
const BROKEN: [string, Rule, Evidence][] = [
  [
    "a step that ran again after its result was stored",
    "runs once",
    evidence({
      actions: after((action) => action.did === "run began" && action.fence === 2, {
        did: "function began",
        job: "main",
        fence: 2,
        step: "a",
        call: "a2",
      }),
    }),
  ],
  ["a wait that slept", "wait ends", evidence({ asleep: asleepOn("b", EVENT) })],
  ["a wait that timed out", "wait ends", evidence({ steps: withStep("b", { value: null }) })],
  ["a payload of no event", "wait ends", evidence({ steps: withStep("b", { value: '{"call":"other"}' }) })],
  ["a parent that slept", "parent goes on", evidence({ asleep: asleepOn("c", CHILD) })],
  ["a parent that missed the end", "parent goes on", evidence({ steps: withStep("c", { state: "waiting" }) })],
  ["a parent with another output", "parent goes on", evidence({ steps: withStep("c", { value: "[]" }) })],
  ["a parent without its child", "parent goes on", evidence({ jobs: { child: null } })],
  [
    "a step that ended after a later claim",
    "late steps refused",
    evidence({ actions: after(({ did }) => did === "function began", CLAIMED) }),
  ],
  ["a step under a later fence", "late steps refused", evidence({ steps: withStep("a", { fence: 2 }) })],
  [
    "a job that is pending",
    "job ends",
    evidence({ jobs: { main: { ...endedJob("main", "torture.main", []), state: "pending" } } }),
  ],
  [
    "a job that is dead",
    "job ends",
    evidence({ jobs: { emitter: { ...endedJob("emitter", "torture.emitter", []), state: "dead" } } }),
  ],
  ["a job that is missing", "job ends", evidence({ jobs: { main: null } })],
  ["a step that is missing", "one result", evidence({ steps: STEPS.slice(1) })],
  [
    "a step with two rows",
    "one result",
    evidence({ steps: [...STEPS, stepOf("a", { value: JSON.stringify(CALLED) })] }),
  ],
  ["a step that has not ended", "one result", evidence({ steps: withStep("a", { state: "waiting" }) })],
  [
    "an output that is not what is stored",
    "one result",
    evidence({ jobs: { main: endedJob("main", "torture.main", [{ call: "a2", fence: 1 }, null, OUTPUT]) } }),
  ],
  [
    "a step that returned two values",
    "one result",
    evidence({
      actions: [
        ...ACTIONS,
        { did: "step returned", job: "main", fence: 3, step: "a", value: { call: "a2", fence: 3 } },
      ],
    }),
  ],
  [
    "two first events",
    "one result",
    evidence({ actions: [...ACTIONS, { did: "topic ended", topic: EVENT, call: "e2", first: true }] }),
  ],
  [
    "a fence that was claimed twice",
    "one lease",
    evidence({ actions: [...ACTIONS, { did: "claimed", job: "main", fence: 3 }] }),
  ],
];

describe("the checker", () => {
  it("finds nothing where nothing is wrong", () => {
    expect(check(evidence())).toEqual([]);
  });

  it.each(BROKEN)("finds %s", (_, rule, broken) => {
    expect(check(broken).map((violation) => violation.rule)).toContain(rule);
  });

  it("has evidence against each rule", () => {
    expect(new Set(BROKEN.map(([, rule]) => rule))).toEqual(new Set(Object.keys(RULES)));
  });

  it.each([
    ["the emit", ACTIONS.filter(({ did }) => did !== "topic ended"), "b", EVENT],
    [
      "the end of the child",
      ACTIONS.filter((action) => !(action.did === "topic ended" && action.topic === CHILD)),
      "c",
      CHILD,
    ],
    ["the wait", ACTIONS.filter((action) => !(action.did === "wait stored" && action.step === "b")), "b", EVENT],
  ] as const)("lets a wait be repaired after %s was interrupted", (_, actions, step, topic) => {
    expect(check(evidence({ actions, asleep: asleepOn(step, topic) }))).toEqual([]);
  });

  it("lets a late function end whose result is not stored", () => {
    const late = { job: "main", fence: 1, step: "a", call: "late" } as const;
    const actions = after(({ did }) => did === "function began", { did: "function began", ...late });
    expect(check(evidence({ actions: [...actions, { did: "function ended", ...late }] }))).toEqual([]);
  });
});
