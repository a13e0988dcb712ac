import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { Icon, type IconName } from "./icon.js";

interface ButtonProps {
  children?: ComponentChildren;
  icon?: IconName;
  kind?: "primary" | "ghost" | "danger";
  small?: boolean;
  /** For buttons without text. */
  label?: string;
  title?: string;
  disabled?: boolean;
  /** The key that does the same. */
  shortcut?: string;
  type?: "button" | "submit";
  class?: string;
  /** While its promise is pending, the button is busy and cannot be pressed again. */
  onClick?: (event: MouseEvent) => unknown;
}

export function Button({
  children,
  icon,
  kind,
  small = false,
  label,
  title,
  disabled = false,
  shortcut,
  type = "button",
  class: extra = "",
  onClick,
}: ButtonProps): JSX.Element {
  const [isBusy, setBusy] = useState(false);
  const isOff = disabled || isBusy;
  const press = async (event: MouseEvent): Promise<void> => {
    if (isOff) return event.preventDefault();
    const result = onClick?.(event);
    if (!(result instanceof Promise)) return;
    setBusy(true);
    try {
      await result;
    } finally {
      setBusy(false);
    }
  };
  const classes = ["btn", kind ?? "", small ? "sm" : "", children === undefined ? "icon" : "", extra].join(" ");
  return (
    <button
      type={type}
      class={classes}
      aria-label={label}
      title={title ?? label}
      aria-disabled={isOff || undefined}
      aria-busy={isBusy || undefined}
      onClick={(event) => void press(event)}
    >
      {icon !== undefined && <Icon name={icon} />}
      {children !== undefined && <span>{children}</span>}
      {shortcut !== undefined && <kbd class="kbd">{shortcut}</kbd>}
    </button>
  );
}
