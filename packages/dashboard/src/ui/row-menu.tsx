import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { Icon, type IconName } from "./icon.js";

export interface MenuItem {
  label: string;
  icon: IconName;
  danger?: boolean | undefined;
  run: () => unknown;
}

interface RowMenuProps {
  label: string;
  items: readonly MenuItem[];
  /** Of the button. Default: small and without a border. */
  class?: string;
}

/** A button that opens a menu above everything else, so that no scrolling table cuts it off. */
export function RowMenu({ label, items, class: extra = "sm ghost" }: RowMenuProps): JSX.Element {
  const button = useRef<HTMLButtonElement>(null);
  const menu = useRef<HTMLDivElement>(null);
  const entries = (): HTMLButtonElement[] => [...(menu.current?.querySelectorAll("button") ?? [])];
  const open = (): void => {
    const place = button.current?.getBoundingClientRect();
    const element = menu.current;
    if (place === undefined || element === null) return;
    element.showPopover();
    const { offsetHeight: height, offsetWidth: width } = element;
    const isBelow = place.bottom + height + 8 < innerHeight;
    element.style.left = `${Math.max(8, place.right - width)}px`;
    element.style.top = `${isBelow ? place.bottom + 4 : Math.max(8, place.top - height - 4)}px`;
    entries()[0]?.focus();
  };
  const close = (): void => {
    menu.current?.hidePopover();
    button.current?.focus();
  };
  const onKey = (event: KeyboardEvent): void => {
    // Not a shortcut of the page while a menu is open.
    event.stopPropagation();
    const all = entries();
    const at = all.findIndex((each) => each === document.activeElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (next !== undefined) {
      event.preventDefault();
      all.at(next % all.length)?.focus();
    } else if (event.key === "Tab") close();
  };
  return (
    <>
      <button
        ref={button}
        type="button"
        class={`btn icon ${extra}`}
        aria-label={label}
        title={label}
        aria-haspopup="menu"
        onClick={open}
      >
        <Icon name="more" />
      </button>
      <div ref={menu} popover="auto" role="menu" aria-label={label} class="pop menu row-menu" onKeyDown={onKey}>
        {items.map(({ label: text, icon, danger, run }) => (
          <button
            key={text}
            type="button"
            role="menuitem"
            tabIndex={-1}
            class={`item ${danger === true ? "bad" : ""}`}
            onClick={() => {
              close();
              run();
            }}
          >
            <Icon name={icon} />
            {text}
          </button>
        ))}
      </div>
    </>
  );
}
