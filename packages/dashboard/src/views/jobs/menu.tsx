import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Icon, type IconName } from "../../ui/icon.js";

interface MenuProps {
  label: string;
  icon: IconName;
  class?: string;
  /** Gets a function that closes the menu. */
  children: (close: () => void) => ComponentChildren;
}

/** A button that opens a list of `MenuItem`. Arrow keys move in it; Escape and a click beside it close it. */
export function Menu({ label, icon, class: extra = "", children }: MenuProps): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const ref = useRef<HTMLDivElement>(null);
  const items = (): HTMLElement[] => [...(ref.current?.querySelectorAll<HTMLElement>('[role="menuitem"]') ?? [])];
  const close = (): void => {
    setOpen(false);
    ref.current?.querySelector("button")?.focus();
  };
  useEffect(() => {
    if (!isOpen) return;
    items()[0]?.focus();
    const leave = (event: Event): void => {
      if (event.target instanceof Node && ref.current?.contains(event.target) !== true) setOpen(false);
    };
    document.addEventListener("pointerdown", leave);
    return () => document.removeEventListener("pointerdown", leave);
  }, [isOpen]);
  const move = (event: KeyboardEvent): void => {
    if (!isOpen) return;
    const all = items();
    const at = all.indexOf(document.activeElement as HTMLElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (next !== undefined) all[(next + all.length) % all.length]?.focus();
    else if (event.key === "Escape") close();
    else if (event.key === "Tab") return setOpen(false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class={`menu-at ${extra}`} ref={ref} onKeyDown={move}>
      <button
        type="button"
        class="btn"
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        <Icon name={icon} />
        <span class="wide-only">{label}</span>
      </button>
      {isOpen && (
        <div class="pop">
          <div class="menu" role="menu" aria-label={label}>
            {children(close)}
          </div>
        </div>
      )}
    </div>
  );
}

export function MenuItem({
  children,
  icon,
  onSelect,
}: {
  children: ComponentChildren;
  icon?: JSX.Element;
  onSelect: () => void;
}): JSX.Element {
  return (
    <button type="button" class="item" role="menuitem" tabIndex={-1} onClick={onSelect}>
      {icon}
      {children}
    </button>
  );
}
