import type { JSX } from "preact";
import { session } from "../app/api.js";
import { density, type Density } from "../app/density.js";
import { hrefOf } from "../app/router.js";
import { theme, type Theme } from "../app/theme.js";
import { isShown, VIEWS } from "../shell.js";
import { Button } from "../ui/button.js";
import { Dialog } from "../ui/dialog.js";
import { Icon } from "../ui/icon.js";
import { Time } from "../ui/time.js";
import { canSignOut, signOut } from "./palette/sources.js";

const THEMES: readonly (readonly [Theme, string])[] = [
  ["system", "System"],
  ["light", "Light"],
  ["dark", "Dark"],
];
const DENSITIES: readonly (readonly [Density, string])[] = [
  ["compact", "Compact"],
  ["comfortable", "Comfortable"],
];
/** In the bar at the bottom of narrow screens. */
const IN_BAR: readonly string[] = ["", "jobs", "failures", "schedules"];

/** Who is signed in, how the page looks, and, on narrow screens, the views that the bar has no place for. */
export default function Account({ onClose }: { onClose: () => void }): JSX.Element {
  const { value: who } = session;
  const others = Object.entries(VIEWS).filter(([name, line]) => isShown(line) && !IN_BAR.includes(name));
  const out = async (): Promise<void> => {
    await signOut();
    onClose();
  };
  return (
    <Dialog
      title="Account"
      onClose={onClose}
      {...(canSignOut() && {
        footer: (
          <Button icon="lock" onClick={out}>
            Sign out
          </Button>
        ),
      })}
    >
      <div class="stack">
        {others.length > 0 && (
          <nav class="narrow-only more-pages" aria-label="More pages">
            {others.map(([name, { title, icon }]) => (
              <a key={name} href={hrefOf(`/${name}`)} onClick={() => setTimeout(onClose)}>
                <Icon name={icon} />
                {title}
              </a>
            ))}
          </nav>
        )}
        {typeof who === "object" && (
          <dl class="facts">
            <dt>Name</dt>
            <dd>
              <bdi>{who.name}</bdi>
            </dd>
            <dt>Role</dt>
            <dd>{who.role}</dd>
            {who.user !== null && (
              <>
                <dt>Jobs of</dt>
                <dd>
                  <bdi>{who.user}</bdi>
                </dd>
              </>
            )}
            {who.expiresAt !== null && (
              <>
                <dt>Signed in</dt>
                <dd>
                  ends <Time at={who.expiresAt} />
                </dd>
              </>
            )}
          </dl>
        )}
        <Choice label="Theme" choices={THEMES} value={theme.value} onChoose={(value) => (theme.value = value)} />
        <Choice label="Rows" choices={DENSITIES} value={density.value} onChoose={(value) => (density.value = value)} />
      </div>
    </Dialog>
  );
}

interface ChoiceProps<T> {
  label: string;
  choices: readonly (readonly [T, string])[];
  value: T;
  onChoose: (value: T) => void;
}

function Choice<T extends string>({ label, choices, value, onChoose }: ChoiceProps<T>): JSX.Element {
  return (
    <div class="row choice">
      <span class="label">{label}</span>
      <span class="seg push" role="group" aria-label={label}>
        {choices.map(([each, name]) => (
          <button key={each} type="button" aria-pressed={each === value} onClick={() => onChoose(each)}>
            {name}
          </button>
        ))}
      </span>
    </div>
  );
}
