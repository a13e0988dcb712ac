import type { JSX } from "preact";
import { useState } from "preact/hooks";

interface ToggleProps {
  on: boolean;
  label: string;
  disabled?: boolean;
  onToggle: (on: boolean) => Promise<unknown>;
}

/** A switch. It keeps its old value until the change has been made. */
export function Toggle({ on, label, disabled = false, onToggle }: ToggleProps): JSX.Element {
  const [isBusy, setBusy] = useState(false);
  const isOff = disabled || isBusy;
  const toggle = async (): Promise<void> => {
    if (isOff) return;
    setBusy(true);
    try {
      await onToggle(!on);
    } finally {
      setBusy(false);
    }
  };
  return (
    <button
      type="button"
      class="toggle"
      role="switch"
      aria-checked={on}
      aria-label={label}
      aria-busy={isBusy || undefined}
      aria-disabled={isOff || undefined}
      onClick={() => void toggle()}
    />
  );
}
