import type { ErrorGroup } from "../../engine/client/error-groups.js";
import type { TransitionList } from "../../engine/events/read-transitions.js";
import type { Explanation } from "../../engine/explain/explain-job.js";
import type { History } from "../../engine/history/read-history.js";
import type { ErrorGroupResult, ExplanationResult, HistoryResult, TransitionResult } from "../contract/api-types.js";

/** What the API returns about the past and the reasons of jobs: times as strings. */

export function explanationResult({ text, reasons }: Explanation): ExplanationResult {
  return { text, reasons: reasons.map((reason) => ({ ...reason, until: reason.until?.toISOString() ?? null })) };
}

export function errorGroupResult(group: ErrorGroup): ErrorGroupResult {
  return { ...group, firstAt: group.firstAt.toISOString(), lastAt: group.lastAt.toISOString() };
}

export function historyResult({ resolution, from, to, series }: History): HistoryResult {
  return {
    resolution,
    from: from.toISOString(),
    to: to.toISOString(),
    series: series.map(({ name, points }) => ({
      name,
      points: points.map((point) => ({ ...point, at: point.at.toISOString() })),
    })),
  };
}

export function transitionResult({ transitions, cursor }: TransitionList): TransitionResult {
  return {
    transitions: transitions.map(({ id, type, queue, to, at }) => ({ id, type, queue, to, at: at.toISOString() })),
    cursor,
  };
}
