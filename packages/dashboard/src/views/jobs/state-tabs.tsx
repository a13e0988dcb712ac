import type { JSX } from "preact";
import { countText } from "../../app/format.js";
import { Icon } from "../../ui/icon.js";
import type { Counts } from "./counts.js";
import { STATES, type State } from "./filter.js";

interface StateTabsProps {
  counts: Counts;
  /** The states of the filter; undefined: all. */
  chosen: readonly State[] | undefined;
  onChoose: (state: State | null) => void;
}

export function StateTabs({ counts, chosen, onChoose }: StateTabsProps): JSX.Element {
  return (
    <div class="states" role="group" aria-label="State">
      <button type="button" class="s-all" aria-pressed={chosen === undefined} onClick={() => onChoose(null)}>
        All {counts.all !== null && <span class="c">{countText(counts.all)}</span>}
      </button>
      {STATES.map((state) => (
        <button
          key={state}
          type="button"
          class={`s-${state}`}
          aria-pressed={chosen?.includes(state) === true}
          onClick={() => onChoose(state)}
        >
          <Icon name={state} />
          {state} {counts[state] !== null && <span class="c">{countText(counts[state])}</span>}
        </button>
      ))}
    </div>
  );
}
