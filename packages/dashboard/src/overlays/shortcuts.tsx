import type { JSX } from "preact";
import { allShortcuts } from "../app/keys.js";
import { Dialog } from "../ui/dialog.js";

/** Those of the shell; all others belong to the view. */
const ANYWHERE = new Set(["?", "p", "t"]);
const NAMES: Readonly<Record<string, string>> = {
  " ": "space",
  Enter: "↵",
  Escape: "esc",
  ArrowUp: "↑",
  ArrowDown: "↓",
  ArrowLeft: "←",
  ArrowRight: "→",
};

type Line = readonly [about: string, keys: readonly string[]];

export default function Shortcuts({ onClose }: { onClose: () => void }): JSX.Element {
  const all = allShortcuts().map(({ key, about }): Line => [about, [NAMES[key] ?? key]]);
  const isAnywhere = ([, [key]]: Line): boolean => ANYWHERE.has(key ?? "");
  const modifier = navigator.platform.startsWith("Mac") ? "⌘" : "Ctrl";
  const anywhere: Line[] = [["Search and actions", [modifier, "K"]], ...all.filter(isAnywhere), ["Close", ["esc"]]];
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <div class="keys">
        <Section title="Anywhere" lines={anywhere} />
        <Section title="This view" lines={all.filter((line) => !isAnywhere(line))} />
      </div>
    </Dialog>
  );
}

function Section({ title, lines }: { title: string; lines: readonly Line[] }): JSX.Element {
  return (
    <section>
      <h3>{title}</h3>
      {lines.length === 0 ? (
        <p class="t3">It has none.</p>
      ) : (
        <ul>
          {lines.map(([about, keys]) => (
            <li key={about}>
              {about}
              <span class="kk">
                {keys.map((key) => (
                  <kbd key={key} class="kbd">
                    {key}
                  </kbd>
                ))}
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
