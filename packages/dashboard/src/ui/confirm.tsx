import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { Button } from "./button.js";
import { Dialog } from "./dialog.js";
import { TextField } from "./field.js";

interface ConfirmProps {
  title: string;
  /** What happens, and what does not. */
  children: ComponentChildren;
  action: string;
  /** Default: "Cancel". */
  keep?: string;
  danger?: boolean;
  /** Must be typed before the action is possible. */
  typed?: string;
  onClose: () => void;
  /** Resolves to whether it was done; the dialog then closes. */
  onConfirm: () => Promise<boolean>;
}

/** Asks before something that cannot be undone. */
export function Confirm({
  title,
  children,
  action,
  keep = "Cancel",
  danger = false,
  typed,
  onClose,
  onConfirm,
}: ConfirmProps): JSX.Element {
  const [text, setText] = useState("");
  const [isBusy, setBusy] = useState(false);
  const isReady = (typed === undefined || text.trim() === typed.trim()) && !isBusy;
  const confirm = async (): Promise<void> => {
    if (!isReady) return;
    setBusy(true);
    const isDone = await onConfirm();
    setBusy(false);
    if (isDone) onClose();
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={confirm}
      footer={
        <>
          <Button onClick={onClose}>{keep}</Button>
          <Button type="submit" kind="primary" class={danger ? "danger" : ""} disabled={!isReady}>
            {action}
          </Button>
        </>
      }
    >
      <div class="stack tightest">
        {children}
        {typed !== undefined && (
          <TextField
            id="confirm-name"
            label={
              <>
                Type <b dir="auto">{typed}</b> to confirm
              </>
            }
            value={text}
            onText={setText}
          />
        )}
      </div>
    </Dialog>
  );
}
