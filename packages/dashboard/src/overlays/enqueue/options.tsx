import type { TypeResult } from "holdfast/admin";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { SelectField, TextField, type InputProps } from "../../ui/field.js";
import { Icon } from "../../ui/icon.js";
import type { Issue } from "../../ui/json-editor.js";
import { EMPTY, SCOPES, type Draft } from "./draft.js";

interface OptionsProps {
  draft: Draft;
  set: (change: Partial<Draft>) => void;
  issues: (name: string) => Issue[];
  /** Those of the type; null: not known. */
  defaults: TypeResult["defaults"];
}

const TIMES = [
  ["now", "At once"],
  ["after", "After a delay"],
  ["at", "At a time"],
] as const;
const CONFLICTS = [
  ["keep", "keep that job, add none"],
  ["replace", "replace it, if it waits"],
  ["reject", "fail"],
] as const;

/** Everything but the type and the input. */
export function Options({ draft, set, issues, defaults }: OptionsProps): JSX.Element {
  const [isOpen, setOpen] = useState(() => isUsed(draft));
  const text = (name: keyof Draft, label: string, more: Partial<InputProps> = {}, about = ""): JSX.Element => {
    return (
      <TextField
        id={`new-${name}`}
        label={label}
        about={about}
        class="mono"
        issues={issues(ISSUES[name] ?? name)}
        value={draft[name]}
        onText={(value) => set({ [name]: value })}
        {...more}
      />
    );
  };
  const choice = (
    name: "when" | "scope" | "onConflict",
    label: string,
    options: readonly (readonly [string, string])[],
  ): JSX.Element => (
    <SelectField
      id={`new-${name}`}
      label={label}
      value={draft[name]}
      options={options}
      onValue={(value) => set({ [name]: value })}
    />
  );
  const ofType = (value: string | number | undefined): { placeholder: string } => ({
    placeholder: value === undefined ? "that of the type" : String(value),
  });
  return (
    <details class="more" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary class="row label">
        <Icon name="chev" class="sm" />
        Options
      </summary>
      <div class="two-f">
        {choice("when", "Runs", TIMES)}
        {draft.when === "after" && text("delay", "Delay", { placeholder: "10m" })}
        {draft.when === "at" && text("runAt", "Time", { type: "datetime-local", step: 1 }, "in your time zone")}
        {text("priority", "Priority", { inputMode: "numeric", ...ofType(defaults?.priority) }, "-100 to 100")}
        {text("queue", "Queue", ofType(defaults?.queue))}
        {text("user", "User")}
        {text("tags", "Tags", {}, "separated by commas")}
        {text("maxAttempts", "Max attempts", { inputMode: "numeric", ...ofType(defaults?.maxAttempts) })}
        {text("key", "Unique key")}
        {draft.key.trim() !== "" && (
          <>
            {choice("scope", "Unique", SCOPES)}
            {draft.scope === "period" && text("period", "Period", { placeholder: "1h" })}
            {choice("onConflict", "If another job holds it", CONFLICTS)}
          </>
        )}
      </div>
    </details>
  );
}

/** Where the server calls a field by another name. */
const ISSUES: Partial<Record<keyof Draft, string>> = { key: "unique.key", period: "unique.scope" };

/** A draft that was kept shows what was typed. */
function isUsed(draft: Draft): boolean {
  return (Object.keys(EMPTY) as (keyof Draft)[]).some(
    (name) => name !== "type" && name !== "input" && draft[name] !== EMPTY[name],
  );
}
