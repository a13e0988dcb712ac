import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Button } from "./button.js";

interface DialogProps {
  title: string;
  children: ComponentChildren;
  footer?: ComponentChildren;
  wide?: boolean;
  onClose: () => void;
  onSubmit?: () => unknown;
}

/** A modal dialog. Escape and a click beside it close it, and the focus returns to where it was. */
export function Dialog({ title, children, footer, wide = false, onClose, onSubmit }: DialogProps): JSX.Element {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    const dialog = ref.current;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  // A press that began in a field and ends beside the dialog selects text, and does not close it.
  const pressed = useRef<EventTarget | null>(null);
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    void onSubmit?.();
  };
  return (
    <dialog
      ref={ref}
      class={`dialog ${wide ? "wide" : ""}`}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onPointerDown={(event) => (pressed.current = event.target)}
      onClick={(event) => event.target === ref.current && pressed.current === ref.current && onClose()}
    >
      <form onSubmit={submit}>
        <header>
          <h2>{title}</h2>
          <Button class="push" icon="x" kind="ghost" small label="Close" onClick={onClose} />
        </header>
        <div class="body">{children}</div>
        {footer !== undefined && <footer>{footer}</footer>}
      </form>
    </dialog>
  );
}
