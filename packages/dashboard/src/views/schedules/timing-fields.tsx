import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { now } from "../../app/now.js";
import { Input, SelectField, type TextFieldProps } from "../../ui/field.js";
import { Icon } from "../../ui/icon.js";
import { cronWords } from "./cron-words.js";
import type { Draft, FieldErrors } from "./form.js";
import { isZone, offsetLabel, zoneNames } from "./zones.js";

interface TimingFieldsProps {
  draft: Draft;
  errors: FieldErrors;
  set: (changes: Partial<Draft>) => void;
  text: (field: keyof Draft, label: string, more?: Partial<TextFieldProps>) => JSX.Element;
}

const CATCH_UPS = [
  ["latest", "Run the latest once"],
  ["all", "Run several of them"],
  ["skip", "Skip them"],
] as const;
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
          <CronInput draft={draft} error={errors.cron} set={set} />
        ) : (
          <Input
            id="s-every"
            class="mono"
            isBad={errors.every !== undefined}
            value={draft.every}
            onText={(every) => set({ every })}
          />
        )}
        <div id={`s-${field}-note`}>
          {errors[field] !== undefined ? (
            <p class="err">
              <Icon name="alert" />
              <span>{errors[field]}</span>
            </p>
          ) : isCron ? (
            <p class="ok">
              <Icon name="check" />
              <span>{cronWords(draft.cron)}</span>
            </p>
          ) : (
            <p class="hint">Such as 30s, 15m, 2h or 1d.</p>
          )}
        </div>
      </div>
      <div class="two-f">
        {isCron &&
          text("timezone", "Time zone", {
            options: zoneNames(),
            hint: isZone(draft.timezone) ? `Now ${offsetLabel(draft.timezone, now.value)}.` : undefined,
          })}
        <SelectField
          id="s-catchUp"
          label="If slots were missed"
          error={errors.catchUp}
          options={CATCH_UPS}
          value={draft.catchUp}
          onValue={(value) => set({ catchUp: value as Draft["catchUp"] })}
        />
        {draft.catchUp === "all" && text("catchUpAll", "How many missed slots, the newest", { inputMode: "numeric" })}
      </div>
    </>
  );
}

interface CronInputProps extends Pick<TimingFieldsProps, "draft" | "set"> {
  error: string | undefined;
}

/** The pattern, and below it its fields; the one with the cursor is marked. */
function CronInput({ draft, error, set }: CronInputProps): JSX.Element {
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
      <Input
        id="s-cron"
        class="mono"
        isBad={error !== undefined}
        autofocus={draft.name !== ""}
        value={draft.cron}
        onText={(cron) => set({ cron })}
        onSelect={follow}
        onKeyUp={follow}
        onBlur={() => setCaret(-1)}
      />
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
