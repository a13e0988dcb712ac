// How fast a change of many jobs is made.
import type { CountResult } from "holdfast/admin";
import type { JSX } from "preact";
import { useId } from "preact/hooks";
import { may } from "../../app/api.js";
import { clock } from "../../app/format.js";
import { now } from "../../app/now.js";
import type { Action } from "./actions.js";

/** Above this, deletions ask for the number, and retries are slow by default. */
export const MANY = 1_000;
/** Retried as a trial, unless another number is typed. */
export const FIRST = "10";

/** How fast: the first ones and then asked again, so many a second, or all at once. */
export interface Pace {
  kind: "first" | "rate" | "all";
  first: string;
  rate: string;
}

export function hasPaces(count: CountResult | undefined): count is CountResult {
  return may("operator") && count !== undefined && (count.count > Number(FIRST) || !count.exact);
}

/** Thousands of retries at once may be what the service that failed does not bear. */
export function defaultPace({ name }: Action, count: CountResult | undefined): Pace {
  const isMany = count !== undefined && (count.count > MANY || !count.exact);
  return { kind: name === "retry" && isMany && may("operator") ? "rate" : "all", first: FIRST, rate: "20" };
}

export function limitsOf({ kind, first, rate }: Pace): { rate?: number; limit?: number } {
  if (kind === "all") return {};
  return kind === "first" ? { limit: Number(first) } : { rate: Number(rate) };
}

interface PaceProps {
  action: Action;
  count: CountResult;
  pace: Pace;
  onChange: (pace: Pace) => void;
}

export function PaceFields({ action, count, pace, onChange }: PaceProps): JSX.Element {
  const name = useId();
  const rate = Number(pace.rate);
  const option = (kind: Pace["kind"], label: string): JSX.Element => (
    <label class="pick">
      <input type="radio" name={name} checked={pace.kind === kind} onChange={() => onChange({ ...pace, kind })} />
      {label}
    </label>
  );
  const field = (kind: "first" | "rate", label: string, limits: object): JSX.Element => (
    <input
      class="input mono"
      name={kind}
      type="number"
      aria-label={label}
      {...limits}
      required={pace.kind === kind}
      value={pace[kind]}
      onInput={(event) => onChange({ ...pace, kind, [kind]: event.currentTarget.value })}
    />
  );
  return (
    <fieldset class="choices">
      <legend class="label">How fast</legend>
      {action.name === "retry" && (
        <div class="row">
          {option("first", "First")}
          {field("first", "How many first", { min: 1, max: count.count - 1, step: 1 })}
          <span>and then ask again</span>
        </div>
      )}
      <div class="row">
        {option("rate", "At")}
        {field("rate", "Jobs a second", { min: 0.1, max: 10_000, step: "any" })}
        <span>
          a second{" "}
          {count.exact && rate > 0 && (
            <span class="t3">ends about {clock(now.value + (count.count / rate) * 1_000)}</span>
          )}
        </span>
      </div>
      {option("all", "All at once")}
    </fieldset>
  );
}
