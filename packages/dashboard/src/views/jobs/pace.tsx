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
/** Retried as a trial. */
export const FIRST = 10;

/** How fast: the first ones and then asked again, so many a second, or all at once. */
export interface Pace {
  kind: "first" | "rate" | "all";
  rate: string;
}

export const FIRST_JOBS: CountResult = { count: FIRST, exact: true };

export function hasPaces(count: CountResult | undefined): count is CountResult {
  return may("operator") && count !== undefined && (count.count > FIRST || !count.exact);
}

/** Thousands of retries at once may be what the service that failed does not bear. */
export function defaultPace({ name }: Action, count: CountResult | undefined): Pace {
  const isMany = count !== undefined && (count.count > MANY || !count.exact);
  return { kind: name === "retry" && isMany && may("operator") ? "rate" : "all", rate: "20" };
}

export function limitsOf({ kind, rate }: Pace): { rate?: number; limit?: number } {
  if (kind === "all") return {};
  return kind === "first" ? { limit: FIRST } : { rate: Number(rate) };
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
  return (
    <fieldset class="choices">
      <legend class="label">How fast</legend>
      {action.name === "retry" && option("first", `${FIRST} first, then ask again`)}
      <div class="row">
        {option("rate", "At")}
        <input
          class="input mono"
          name="rate"
          type="number"
          aria-label="Jobs a second"
          min={0.1}
          max={10_000}
          step="any"
          required={pace.kind === "rate"}
          value={pace.rate}
          onInput={(event) => onChange({ kind: "rate", rate: event.currentTarget.value })}
        />
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
