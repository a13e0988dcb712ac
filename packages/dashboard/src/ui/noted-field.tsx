import type { ComponentChildren, JSX } from "preact";
import { Icon } from "./icon.js";

interface NotedFieldProps {
  id: string;
  label: ComponentChildren;
  error?: string | undefined;
  hint?: ComponentChildren;
  class?: string;
  /** Gets `id` and what describes it. */
  children: ComponentChildren;
}

/** A label, a control, and below them what is wrong with it, or a hint. The control names `${id}-note` in `aria-describedby`. */
export function NotedField({ id, label, error, hint, class: extra = "", children }: NotedFieldProps): JSX.Element {
  return (
    <div class={`field ${extra}`}>
      <label for={id}>{label}</label>
      {children}
      <div id={`${id}-note`} class="field-note" aria-live="polite">
        {error !== undefined ? (
          <p class="err">
            <Icon name="alert" />
            <span dir="auto">{error}</span>
          </p>
        ) : (
          hint !== undefined && <p class="hint">{hint}</p>
        )}
      </div>
    </div>
  );
}
