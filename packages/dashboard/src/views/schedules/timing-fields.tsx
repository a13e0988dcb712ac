import type { InputHTMLAttributes, JSX } from "preact";
import { useState } from "preact/hooks";
import { now } from "../../app/now.js";
import { NotedField } from "../../ui/noted-field.js";
import { Icon } from "../../ui/icon.js";
import { cronWords } from "./cron-words.js";
import type { Draft, FieldErrors } from "./form.js";
import { isZone, offsetLabel, zoneNames } from "./zones.js";

interface TimingFieldsProps {
  draft: Draft;
  errors: FieldErrors;
  set: (changes: Partial<Draft>) => void;
  text: (field: keyof Draft, more?: InputHTMLAttributes<HTMLInputElement>) => JSX.Element;
}

const NAMES = ["second", "minute", "hour", "day", "month", "weekday"];

export function TimingFields({ draft, errors, set, text }: TimingFieldsProps): JSX.Element {
  const isCron = draft.kind === "cron";
  const field = isCron ? "cron" : "every";
  return (
    <>
      <div class="field">
        <span class="row">
          <label class="label" for={`s-${field}`}>
            Runs
          </label>
          <span class="seg push" role="group" aria-label="Kind of timing">
            {(["cron", "every"] as const).map((kind) => (
              <button key={kind} type="button" aria-pressed={draft.kind === kind} onClick={() => set({ kind })}>
                {kind === "cron" ? "Cron" : "Interval"}
              </button>
            ))}
          </span>
        </span>
        {isCron ? (
          <CronInput draft={draft} error={errors.cron} text={text} />
        ) : (
          text("every", { class: `input mono ${errors.every === undefined ? "" : "bad"}` })
        )}
        <div id={`s-${field}-note`} class="field-note">
          {errors[field] === undefined ? (
            isCron ? (
              <p class="ok">
                <Icon name="check" />
                <span>{cronWords(draft.cron)}</span>
              </p>
            ) : (
              <p class="hint">Such as 30s, 15m, 2h or 1d.</p>
            )
          ) : (
            <p class="err">
              <Icon name="alert" />
              <span>{errors[field]}</span>
            </p>
          )}
        </div>
      </div>
      <div class="two-f">
        {isCron && (
          <NotedField
            id="s-timezone"
            label="Time zone"
            error={errors.timezone}
            hint={isZone(draft.timezone) ? `Now ${offsetLabel(draft.timezone, now.value)}.` : undefined}
          >
            {text("timezone", { list: "s-zones" })}
            <datalist id="s-zones">
              {zoneNames().map((zone) => (
                <option key={zone} value={zone} />
              ))}
            </datalist>
          </NotedField>
        )}
        <NotedField id="s-catchUp" label="If slots were missed" error={errors.catchUp}>
          <select
            id="s-catchUp"
            class="input"
            value={draft.catchUp}
            onChange={(event) => set({ catchUp: event.currentTarget.value as Draft["catchUp"] })}
          >
            <option value="latest">Run the latest once</option>
            <option value="all">Run several of them</option>
            <option value="skip">Skip them</option>
          </select>
        </NotedField>
        {draft.catchUp === "all" && (
          <NotedField id="s-catchUpAll" label="How many missed slots, the newest" error={errors.catchUpAll}>
            {text("catchUpAll", { inputMode: "numeric" })}
          </NotedField>
        )}
      </div>
    </>
  );
}

/** The pattern, and below it its fields; the one with the cursor is marked. */
function CronInput({
  draft,
  error,
  text,
}: {
  draft: Draft;
  error: string | undefined;
  text: TimingFieldsProps["text"];
}): JSX.Element {
  const [caret, setCaret] = useState(-1);
  const fields = draft.cron.trim().split(/\s+/);
  const names = fields.length === 6 ? NAMES : NAMES.slice(1);
  const isSplit = fields.length === 5 || fields.length === 6;
  const bad = error === undefined ? undefined : /the (.+?) field/.exec(error)?.[1];
  const isBad = (name: string): boolean =>
    bad === name || (bad === "day of month" && name === "day") || (bad === "day of week" && name === "weekday");
  const follow = (event: { currentTarget: HTMLInputElement }): void => {
    const before = draft.cron.slice(0, event.currentTarget.selectionStart ?? 0).trimStart();
    setCaret(before.split(/\s+/).length - 1);
  };
  return (
    <>
      {text("cron", {
        class: `input mono ${error === undefined ? "" : "bad"}`,
        autofocus: draft.name !== "",
        onSelect: follow,
        onKeyUp: follow,
        onBlur: () => setCaret(-1),
      })}
      {isSplit && (
        <div class="cron-parts" aria-hidden="true">
          {fields.map((part, at) => (
            <span key={at} class={isBad(names[at] ?? "") ? "wrong" : at === caret ? "on" : ""}>
              <b class="cut" title={part}>
                {part}
              </b>
              {names[at]}
            </span>
          ))}
        </div>
      )}
    </>
  );
}
