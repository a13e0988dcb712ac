import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Icon, type IconName } from "../../ui/icon.js";

export interface MenuItem {
  label: string;
  icon: IconName;
  isDanger?: boolean;
  run: () => void;
}

/** A button that opens a menu. Arrow keys move in it; Escape and a click beside it close it. */
export function MoreMenu({ items }: { items: readonly MenuItem[] }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const id = useId();
  useEffect(() => {
    if (!isOpen) return;
    box.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    const closeBeside = (event: Event): void => {
      if (!(event.target instanceof Node) || box.current?.contains(event.target) !== true) setOpen(false);
    };
    document.addEventListener("pointerdown", closeBeside);
    return () => document.removeEventListener("pointerdown", closeBeside);
  }, [isOpen]);
  const close = (): void => {
    setOpen(false);
    button.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (!isOpen) return;
    // Not a shortcut of the page while a menu is open.
    event.stopPropagation();
    if (event.key === "Escape") return close();
    if (event.key === "Tab") return setOpen(false);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const all = [...(box.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const at = all.indexOf(document.activeElement as HTMLElement);
    all.at((at + step) % all.length)?.focus();
  };
  return (
    <div ref={box} class="rel" onKeyDown={onKeyDown}>
      <button
        ref={button}
        type="button"
        class="btn icon"
        aria-label="More actions"
        title="More actions"
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-controls={id}
        onClick={() => setOpen(!isOpen)}
      >
        <Icon name="more" />
      </button>
      {isOpen && (
        <div id={id} class="pop menu" role="menu">
          {items.map(({ label, icon, isDanger = false, run }) => (
            <button
              key={label}
              type="button"
              role="menuitem"
              tabIndex={-1}
              class={`item ${isDanger ? "bad" : ""}`}
              onClick={() => {
                close();
                run();
              }}
            >
              <Icon name={icon} />
              {label}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
