import type { CountResult, OperationResult, PreviewInput } from "holdfast/admin";
import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { api, may, messageOf } from "../../app/api.js";
import { listed, number, plural } from "../../app/format.js";
import { useResource } from "../../app/resource.js";
import { toast } from "../../app/toasts.js";
import { Button } from "../../ui/button.js";
import { Dialog } from "../../ui/dialog.js";
import { TextField } from "../../ui/field.js";
import { Icon, type IconName } from "../../ui/icon.js";
import { filterFor, idsFor, jobsText, skippedText, type Action, type Target } from "./actions.js";
import { STATES, type State } from "./filter.js";
import { operations, show } from "./operations.js";
import { defaultPace, FIRST, hasPaces, limitsOf, MANY, PaceFields, type Pace } from "./pace.js";
import { skippedWords } from "./skipped-words.js";

interface BulkDialogProps {
  action: Action;
  target: Target;
  /** Whether some of many jobs come first. */
  isTrial?: boolean;
  onClose: () => void;
  /** The change has been started. */
  onStarted: () => void;
}

const AT_ONCE = 4;

interface Preview extends CountResult {
  skipped: Readonly<Record<string, number>>;
}

/** How many jobs an action would change now. The role user has no preview. */
async function previewOf(action: Action, target: Target, change: Change, without: readonly string[]): Promise<Preview> {
  if (target.kind === "ids") {
    const ids = idsFor(action, target.jobs).filter((id) => !without.includes(id));
    if (!may("operator") || ids.length === 0) return { count: ids.length, exact: true, skipped: {} };
    const { changes, skipped, exact } = await api.jobs.preview({ action: callOf(action, change), ids });
    return { count: changes, exact, skipped };
  }
  const { createdBefore } = filterFor(action, target);
  const filter = { ...target.conditions, ...(createdBefore !== undefined && { createdBefore }) };
  const { changes, skipped, exact } = await api.jobs.preview({ action: callOf(action, change), filter });
  return { count: changes, exact, skipped };
}

function callOf({ name }: Action, { when }: Change): PreviewInput["action"] {
  if (name === "time") return when === "now" ? "promote" : "update";
  return name === "priority" ? "update" : name;
}

/** Shows how many jobs an action is for and what it does, before it is done. */
export function BulkDialog({ action, target, isTrial = false, onClose, onStarted }: BulkDialogProps): JSX.Element {
  const [change, setChange] = useState<Change>({ when: "now", delay: "10m", at: "", priority: "0" });
  const [pace, setPace] = useState<Pace | null>(isTrial ? { kind: "first", first: FIRST, rate: "20" } : null);
  /** The retry of the first jobs, and those of them that were given by id. */
  const [trial, setTrial] = useState<{ operation: string; ids: readonly string[] } | null>(null);
  const tried = operations.value.find(({ operation }) => operation.id === trial?.operation)?.operation;
  const isTrying = tried?.state === "running";
  const without = trial?.ids ?? [];
  const ids = target.kind === "ids" ? idsFor(action, target.jobs).filter((id) => !without.includes(id)) : null;
  const filter = target.kind === "filter" ? filterFor(action, target) : undefined;
  const counted = useResource(
    `jobs.preview ${action.name} ${JSON.stringify(filter ?? ids)} ${trial?.operation} ${isTrying}`,
    () => previewOf(action, target, change, without),
  );
  const [typed, setTyped] = useState("");
  const [error, setError] = useState<string | null>(null);
  const { value: count } = counted.data;
  const asksNumber = action.name === "delete" && count !== undefined && (count.count > MANY || !count.exact);
  const chosen = pace ?? defaultPace(action, count);
  const first = Number(chosen.first);
  const isReady =
    !isTrying &&
    count !== undefined &&
    count.count > 0 &&
    (!asksNumber || typed.replaceAll(/\D/g, "") === String(count.count));
  const problem = counted.error.value === undefined ? error : messageOf(counted.error.value);

  const form = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // The field that is asked for, or the button. To delete, one more key is needed.
    const dialog = form.current?.closest("dialog");
    const first = form.current?.querySelector<HTMLElement>("input:not([name])");
    (
      first ?? dialog?.querySelector<HTMLElement>(`footer .btn${action.name === "delete" ? "" : "[type=submit]"}`)
    )?.focus();
  }, [asksNumber]);

  const run = async (): Promise<void> => {
    if (!isReady) return;
    try {
      if (may("operator")) {
        const many = { ...(ids === null ? { filter: filter ?? {} } : { ids }), ...limitsOf(chosen) };
        const operation = await start(action, many, change);
        const isFirst = chosen.kind === "first";
        show(operation, isFirst ? first : count.exact ? count.count : null);
        if (isFirst) {
          setTrial({ operation: operation.id, ids: [...without, ...(ids?.slice(0, first) ?? [])] });
          setPace({ ...chosen, kind: "all" });
          return;
        }
      } else await oneByOne(action, ids ?? []);
    } catch (thrown) {
      setError(messageOf(thrown));
      return;
    }
    onStarted();
  };
  const jobs = count === undefined ? "jobs" : jobsText(chosen.kind === "first" ? { count: first, exact: true } : count);
  const left = count === undefined ? "" : skippedWords(count.skipped);
  const skipped = target.kind === "ids" ? skippedText(action, target.jobs) : null;
  return (
    <Dialog
      title={action.verb(count === undefined ? "jobs" : jobsText(count))}
      onClose={onClose}
      onSubmit={run}
      footer={
        <>
          <span class="t3 grow">{may("operator") && "Recorded in the audit log"}</span>
          <Button onClick={onClose}>Back</Button>
          <Button
            kind={action.name === "delete" ? "danger" : "primary"}
            class={action.name === "delete" ? "primary" : ""}
            icon={action.icon}
            type="submit"
            disabled={!isReady}
          >
            {action.verb(jobs)}
          </Button>
        </>
      }
    >
      <div class="stack" ref={form}>
        {tried !== undefined && (
          <p role="status">
            {isTrying
              ? `Retrying the first ${first}…`
              : `${plural(tried.changed, "job")} retried. ${joined(skippedWords(tried.skipped))}See how they do, then go on.`}
          </p>
        )}
        <ul class="what-l">
          <Line
            icon="check"
            state="completed"
            text={<Matching count={count} states={action.states} target={target} />}
          />
          {skipped !== null && <Line icon="info" state="failed" text={skipped} />}
          {left !== "" && <Line icon="info" state="failed" text={left} />}
          {effectsOf(action, change).map((text) => (
            <Line key={text} icon="info" text={text} />
          ))}
          {target.kind === "filter" && <Line icon="info" text="Jobs enqueued after you selected them are left alone" />}
        </ul>
        {action.name === "time" && <TimeFields change={change} onChange={setChange} />}
        {action.name === "priority" && <PriorityField change={change} onChange={setChange} />}
        {hasPaces(count) && <PaceFields action={action} count={count} pace={chosen} onChange={setPace} />}
        {asksNumber && <NumberField count={count} typed={typed} onType={setTyped} />}
        {problem !== null && (
          <p class="note s-dead" role="alert">
            <Icon name="alert" />
            {problem}
          </p>
        )}
      </div>
    </Dialog>
  );
}

function Line({ icon, state = "", text }: { icon: IconName; state?: string; text: string | JSX.Element }): JSX.Element {
  return (
    <li class={state === "" ? "" : `s-${state}`}>
      <Icon name={icon} />
      <span>{text}</span>
    </li>
  );
}

function Matching({
  count,
  states,
  target,
}: {
  count: CountResult | undefined;
  states: readonly State[];
  target: Target;
}): JSX.Element {
  if (count === undefined) return <>Counting…</>;
  if (count.count === 0) return <>No job is {listed(states, "or")} now</>;
  const isOne = count.exact && count.count === 1;
  const whole = jobsText(count);
  const chosen = target.kind === "ids" ? undefined : (target.conditions.state ?? STATES);
  const isNarrowed = chosen?.every((state) => states.includes(state)) === false;
  return (
    <>
      <b>{whole.charAt(0).toUpperCase() + whole.slice(1)}</b>{" "}
      {target.kind === "ids" ? (isOne ? "is selected" : "are selected") : isOne ? "matches" : "match"}
      {isNarrowed && ` and ${isOne ? "is" : "are"} ${listed(states, "or")}. Others are skipped`}
    </>
  );
}

function effectsOf({ name, effects }: Action, { when }: Change): readonly string[] {
  if (name !== "time") return effects;
  return [when === "now" ? "They are due at once, and run as workers are free" : "They wait until then"];
}

interface Change {
  when: "now" | "delay" | "at";
  delay: string;
  /** As in a field for local date and time. */
  at: string;
  priority: string;
}

interface FieldProps {
  change: Change;
  onChange: (change: Change) => void;
}

function TimeFields({ change, onChange }: FieldProps): JSX.Element {
  const name = useId();
  const option = (when: Change["when"], label: string): JSX.Element => (
    <label class="pick">
      <input type="radio" name={name} checked={change.when === when} onChange={() => onChange({ ...change, when })} />
      {label}
    </label>
  );
  return (
    <fieldset class="choices">
      <legend class="label">When they run</legend>
      {option("now", "Now")}
      <div class="row">
        {option("delay", "After")}
        <input
          class="input mono"
          aria-label="Delay, such as 10m or 2h"
          value={change.delay}
          required={change.when === "delay"}
          pattern="\s*(\d+(\.\d+)?\s*(ms|s|m|h|d|w)\s*)+"
          title="A duration such as 30s, 10m, 2h or 7d"
          onInput={(event) => onChange({ ...change, when: "delay", delay: event.currentTarget.value })}
        />
      </div>
      <div class="row">
        {option("at", "At")}
        <input
          class="input"
          type="datetime-local"
          aria-label="Date and time"
          value={change.at}
          required={change.when === "at"}
          onInput={(event) => onChange({ ...change, when: "at", at: event.currentTarget.value })}
        />
      </div>
    </fieldset>
  );
}

function PriorityField({ change, onChange }: FieldProps): JSX.Element {
  return (
    <TextField
      id="new-priority"
      label="New priority"
      hint="From -100 to 100; 0 is the default."
      class="mono"
      type="number"
      min={-100}
      max={100}
      step={1}
      required
      value={change.priority}
      onText={(priority) => onChange({ ...change, priority })}
    />
  );
}

interface NumberFieldProps {
  count: CountResult;
  typed: string;
  onType: (text: string) => void;
}

function NumberField({ count, typed, onType }: NumberFieldProps): JSX.Element {
  return (
    <TextField
      id="typed-number"
      label={
        <>
          Type <b>{number(count.count)}</b> to delete {count.exact ? "them" : "all that match, also those not counted"}
        </>
      }
      class="mono"
      inputMode="numeric"
      value={typed}
      onText={onType}
    />
  );
}

function joined(words: string): string {
  return words === "" ? "" : `${words}. `;
}

type Many = NonNullable<Parameters<typeof api.jobs.retryMany>[0]>;

function start({ name }: Action, many: Many, change: Change): Promise<OperationResult> {
  switch (name) {
    case "retry":
      return api.jobs.retryMany(many);
    case "cancel":
      return api.jobs.cancelMany(many);
    case "delete":
      return api.jobs.removeMany(many);
    case "priority":
      return api.jobs.updateMany({ ...many, priority: Number(change.priority) });
    case "time":
      if (change.when === "now") return api.jobs.promoteMany(many);
      if (change.when === "delay") return api.jobs.updateMany({ ...many, delay: change.delay.trim() });
      return api.jobs.updateMany({ ...many, runAt: new Date(change.at).toISOString() });
  }
}

/** The role user has no bulk changes. */
async function oneByOne({ name }: Action, ids: readonly string[]): Promise<void> {
  const left = [...ids];
  let changed = 0;
  const failures: unknown[] = [];
  const work = async (): Promise<void> => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) {
      try {
        await (name === "retry" ? api.jobs.retry({ id }) : api.jobs.cancel({ id }));
        changed++;
      } catch (thrown) {
        failures.push(thrown);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  if (changed === 0 && failures.length > 0) throw new Error(messageOf(failures[0]));
  const rest = ids.length - changed;
  toast(
    `${plural(changed, "job")} ${name === "retry" ? "retried" : "cancelled"}.${rest > 0 ? ` ${plural(rest, "job")} not changed: ${messageOf(failures[0])}` : ""}`,
    { kind: rest > 0 ? "info" : "done" },
  );
}
