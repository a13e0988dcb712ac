import type { StepResult, StepsResult } from "../../../admin/contract/api-types.js";
import { agoOf, clockOf, countOf, lengthOf } from "../../ui/format.js";
import { paint, type Part } from "../../ui/style.js";

const MAX_VALUE_LENGTH = 100;
const MAX_NAME_WIDTH = 40;
// The children of a set are one line each, and a job can have thousands.
const MAX_LINES = 100;

/** A line for each step: its name, how it ended or what it waits for, and how long it took. */
export function stepLines({ steps, total }: StepsResult, now: number): Part[][] {
  const sets = new Set(steps.filter(({ member }) => member > 0).map(({ name }) => name));
  const shown = steps.slice(0, MAX_LINES).map((step) => ({ step, name: nameOf(step, sets) }));
  const width = Math.min(MAX_NAME_WIDTH, Math.max(...shown.map(({ name }) => name.length)));
  const lines = shown.map(({ step, name }) => [`${name.padEnd(width)}  `, ...endOf(step, now)]);
  return total > MAX_LINES ? [...lines, [paint(`and ${countOf(total - MAX_LINES)} more`, "gray")]] : lines;
}

/** The children of a set are numbered from 1. */
function nameOf({ name, member }: StepResult, sets: ReadonlySet<string>): string {
  return sets.has(name) ? `${name} ${member + 1}` : name;
}

function endOf(step: StepResult, now: number): Part[] {
  const { startedAt, endedAt, tries, error, value, until } = step;
  // When a function began is not stored.
  const isTimed = endedAt !== null && step.kind !== "run";
  const took = isTimed ? ` after ${lengthOf(Date.parse(endedAt) - Date.parse(startedAt))}` : "";
  const failures = tries === 0 ? "" : `, ${tries === 1 ? "1 failure" : `${tries} failures`}`;
  switch (step.state) {
    case "done": {
      const shown = value === null || step.kind === "sleep" ? "" : `: ${shortened(JSON.stringify(value))}`;
      return [paint("done", "green"), `${took}${failures}${shown}`];
    }
    case "failed":
      return [paint("failed", "red"), `${took}${failures}: ${error?.message ?? "unknown"}`];
    case "waiting": {
      const ends = until === null ? "" : `, until ${clockOf(until)}`;
      return [paint(waitOf(step), "yellow"), ", begun ", agoOf(startedAt, now), `${failures}${ends}`];
    }
  }
}

function waitOf({ kind, event, job }: StepResult): string {
  if (kind === "event") return `waits for the event ${event}`;
  if (kind === "job") return `waits for job ${job}`;
  return kind === "sleep" ? "sleeps" : "waits to run again";
}

function shortened(text: string): string {
  return text.length <= MAX_VALUE_LENGTH ? text : `${text.slice(0, MAX_VALUE_LENGTH - 1)}…`;
}
