import type { JSX } from "preact";
import { useId, useRef } from "preact/hooks";
import { Icon, type IconName } from "./icon.js";

export interface MenuItem {
  label: string;
  icon?: IconName;
  /** Beside the label, in small letters. */
  about?: string;
  danger?: boolean | undefined;
  run: () => unknown;
  /** A button beside the item removes it. */
  remove?: () => unknown;
}

interface MenuProps {
  label: string;
  /** Strings are headings. */
  items: readonly (MenuItem | string)[];
  icon?: IconName;
  /** Of the button. Default: small, without a border and without a word. */
  class?: string;
  hasWord?: boolean;
}

/** A button that opens a menu above everything else, so that no scrolling table cuts it off. */
export function Menu({
  label,
  items,
  icon = "more",
  class: extra = "icon sm ghost",
  hasWord = false,
}: MenuProps): JSX.Element {
  const id = useId();
  const menu = useRef<HTMLDivElement>(null);
  const entries = (): HTMLButtonElement[] => [...(menu.current?.querySelectorAll("button") ?? [])];
  /** Before the browser opens it: below the button, or above it in the lower half of the page. */
  const place = (button: Element): void => {
    if (menu.current === null) return;
    const { top, bottom, right } = button.getBoundingClientRect();
    const isAbove = top > innerHeight / 2;
    const { style } = menu.current;
    style.top = isAbove ? "auto" : `${bottom + 4}px`;
    style.bottom = isAbove ? `${innerHeight - top + 4}px` : "auto";
    style.setProperty("--right", `${document.documentElement.clientWidth - right}px`);
  };
  const choose = (run: () => unknown) => (): void => {
    menu.current?.hidePopover();
    run();
  };
  const onKey = (event: KeyboardEvent): void => {
    // Not a shortcut of the page while a menu is open.
    event.stopPropagation();
    const all = entries();
    const at = all.indexOf(document.activeElement as HTMLButtonElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (next !== undefined) {
      event.preventDefault();
      all.at(next % all.length)?.focus();
    } else if (event.key === "Tab") menu.current?.hidePopover();
  };
  return (
    <>
      <button
        type="button"
        class={`btn ${extra}`}
        aria-label={label}
        title={label}
        aria-haspopup="menu"
        popovertarget={id}
        onClick={(event) => place(event.currentTarget)}
      >
        <Icon name={icon} />
        {hasWord && <span>{label}</span>}
      </button>
      <div
        ref={menu}
        id={id}
        popover="auto"
        role="menu"
        aria-label={label}
        class="pop menu row-menu"
        onToggle={(event) => event.newState === "open" && entries()[0]?.focus()}
        onKeyDown={onKey}
      >
        {items.map((item, at) =>
          typeof item === "string" ? (
            <div key={at} class="head" role="presentation">
              {item}
            </div>
          ) : (
            <div key={at} class="row" role="none">
              <button
                type="button"
                role="menuitem"
                tabIndex={-1}
                class={`item ${item.danger === true ? "bad" : ""}`}
                onClick={choose(item.run)}
              >
                {item.icon !== undefined && <Icon name={item.icon} />}
                <bdi class="cut">{item.label}</bdi>
                {item.about !== undefined && <code class="push cut">{item.about}</code>}
              </button>
              {item.remove !== undefined && (
                <button
                  type="button"
                  role="menuitem"
                  tabIndex={-1}
                  class="btn ghost icon sm"
                  aria-label={`Remove ${item.label}`}
                  onClick={choose(item.remove)}
                >
                  <Icon name="x" />
                </button>
              )}
            </div>
          ),
        )}
      </div>
    </>
  );
}
