import type { ComponentChildren, JSX } from "preact";
import { Button } from "../../ui/button.js";
import { Dialog } from "../../ui/dialog.js";

interface ConfirmProps {
  title: string;
  children: ComponentChildren;
  /** What the button does, such as "Delete this job". */
  action: string;
  keep: string;
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
}

/** Asks before something that cannot be undone. */
export function Confirm({ title, children, action, keep, onConfirm, onClose }: ConfirmProps): JSX.Element {
  return (
    <Dialog
      title={title}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{keep}</Button>
          <Button kind="danger" class="primary" onClick={() => onConfirm().then(onClose)}>
            {action}
          </Button>
        </>
      }
    >
      {children}
    </Dialog>
  );
}
