import type { JSX } from "preact";
import { dismiss, toasts } from "../app/toasts.js";
import { Button } from "./button.js";
import { Icon } from "./icon.js";

export function Toasts(): JSX.Element {
  return (
    <div class="toasts">
      {toasts.value.map(({ id, kind, text, action }) => (
        <div
          key={id}
          class={`toast s-${kind === "error" ? "dead" : "completed"}`}
          role={kind === "error" ? "alert" : undefined}
        >
          <Icon name={kind === "error" ? "dead" : "check"} />
          <span>{text}</span>
          {action !== undefined && (
            <Button
              small
              onClick={() => {
                dismiss(id);
                action.run();
              }}
            >
              {action.label}
            </Button>
          )}
          <Button icon="x" kind="ghost" small label="Dismiss" onClick={() => dismiss(id)} />
        </div>
      ))}
    </div>
  );
}
