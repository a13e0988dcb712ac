import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Field, Input, type InputProps } from "../../ui/field.js";
import { Icon } from "../../ui/icon.js";
import type { Issue } from "../../ui/json-editor.js";
import { EMPTY, SCOPES, type Draft } from "./draft.js";

interface OptionsProps {
  draft: Draft;
  set: (change: Partial<Draft>) => void;
  issues: (name: string) => Issue[];
}

/** Everything but the type and the input. */
export function Options({ draft, set, issues }: OptionsProps): JSX.Element {
  const text = (name: keyof Draft, issue: string = name): InputProps => ({
    id: `new-${name}`,
    value: draft[name],
    isBad: issues(issue).length > 0,
    isMono: true,
    onInput: (value) => set({ [name]: value }),
  });
  const [isOpen, setOpen] = useState(() => isUsed(draft));
  return (
    <details class="more" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary class="row label">
        <Icon name="chev" class="sm" />
        Options
      </summary>
      <div class="two-f">
        <Field id="new-when" label="Runs">
          <select
            id="new-when"
            class="input"
            value={draft.when}
            onChange={(event) => set({ when: event.currentTarget.value as Draft["when"] })}
          >
            <option value="now">At once</option>
            <option value="after">After a delay</option>
            <option value="at">At a time</option>
          </select>
        </Field>
        {draft.when === "now" && <Priority text={text("priority")} issues={issues("priority")} />}
        {draft.when === "after" && (
          <Field id="new-delay" label="Delay" issues={issues("delay")}>
            <Input {...text("delay")} placeholder="10m" />
          </Field>
        )}
        {draft.when === "at" && (
          <Field id="new-runAt" label="Time" about="in your time zone" issues={issues("runAt")}>
            <Input {...text("runAt")} type="datetime-local" />
          </Field>
        )}
        {draft.when !== "now" && <Priority text={text("priority")} issues={issues("priority")} />}
        <Field id="new-queue" label="Queue" issues={issues("queue")}>
          <Input {...text("queue")} placeholder="that of the type" />
        </Field>
        <Field id="new-user" label="User" issues={issues("user")}>
          <Input {...text("user")} />
        </Field>
        <Field id="new-tags" label="Tags" about="separated by commas" issues={issues("tags")}>
          <Input {...text("tags")} />
        </Field>
        <Field id="new-maxAttempts" label="Max attempts" issues={issues("maxAttempts")}>
          <Input {...text("maxAttempts")} inputMode="numeric" placeholder="that of the type" />
        </Field>
        <Field id="new-key" label="Unique key" issues={[...issues("unique.key"), ...issues("key")]}>
          <Input {...text("key", "unique.key")} />
        </Field>
        {draft.key.trim() !== "" && (
          <>
            <Field id="new-scope" label="Unique">
              <select
                id="new-scope"
                class="input"
                value={draft.scope}
                onChange={(event) => set({ scope: event.currentTarget.value as Draft["scope"] })}
              >
                {SCOPES.map(([value, words]) => (
                  <option key={value} value={value}>
                    {words}
                  </option>
                ))}
              </select>
            </Field>
            {draft.scope === "period" && (
              <Field id="new-period" label="Period" issues={issues("unique.scope")}>
                <Input {...text("period", "unique.scope")} placeholder="1h" />
              </Field>
            )}
            <Field id="new-onConflict" label="If another job holds it">
              <select
                id="new-onConflict"
                class="input"
                value={draft.onConflict}
                onChange={(event) => set({ onConflict: event.currentTarget.value as Draft["onConflict"] })}
              >
                <option value="keep">keep that job, add none</option>
                <option value="replace">replace it, if it waits</option>
                <option value="reject">fail</option>
              </select>
            </Field>
          </>
        )}
      </div>
    </details>
  );
}

/** A draft that was kept shows what was typed. */
function isUsed(draft: Draft): boolean {
  return (Object.keys(EMPTY) as (keyof Draft)[]).some(
    (name) => name !== "type" && name !== "input" && draft[name] !== EMPTY[name],
  );
}

function Priority({ text, issues }: { text: InputProps; issues: Issue[] }): JSX.Element {
  return (
    <Field id="new-priority" label="Priority" about="-100 to 100" issues={issues}>
      <Input {...text} inputMode="numeric" placeholder="that of the type" />
    </Field>
  );
}
