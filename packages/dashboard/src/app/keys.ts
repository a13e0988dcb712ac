/** Keyboard shortcuts. They work while no field has the focus, and no dialog or menu is open. */

export interface Shortcut {
  /** As in `KeyboardEvent.key`: `j`, `/`, `?`, `Enter`. */
  key: string;
  /** For the list of shortcuts. */
  about: string;
  run: (event: KeyboardEvent) => void;
}

const active: Shortcut[][] = [];

/** Adds shortcuts until the returned function is called. Those added last come first. */
export function addShortcuts(shortcuts: Shortcut[]): () => void {
  active.unshift(shortcuts);
  return () => {
    const at = active.indexOf(shortcuts);
    if (at >= 0) active.splice(at, 1);
  };
}

export function allShortcuts(): Shortcut[] {
  const seen = new Set<string>();
  return active.flat().filter(({ key }) => !seen.has(key) && seen.add(key));
}

export function startKeys(openPalette: () => void): void {
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() === "k" && (event.metaKey || event.ctrlKey)) {
      event.preventDefault();
      openPalette();
      return;
    }
    if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target) || isDialogOrMenuOpen()) return;
    const found = active.flat().find(({ key }) => key === event.key);
    if (found === undefined) return;
    // Buttons and links have their own Enter.
    if (event.key === "Enter" && event.target instanceof Element && event.target.closest("a, button") !== null) return;
    event.preventDefault();
    found.run(event);
  });
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return (
    target.isContentEditable ||
    (["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName) && target.getAttribute("type") !== "checkbox")
  );
}

function isDialogOrMenuOpen(): boolean {
  return document.querySelector("dialog[open], :popover-open") !== null;
}
