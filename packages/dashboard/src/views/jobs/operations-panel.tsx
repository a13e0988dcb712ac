import type { OperationResult } from "holdfast/admin";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { may } from "../../app/api.js";
import { clock, number, plural } from "../../app/format.js";
import { now } from "../../app/now.js";
import { useResource } from "../../app/resource.js";
import { hrefOf } from "../../app/router.js";
import { act, announced } from "../../app/toasts.js";
import { Button } from "../../ui/button.js";
import { dismissOperation, operations, showRunning, stopOperation, type Shown } from "./operations.js";
import { skippedWords } from "./skipped-words.js";

const WORDS: Readonly<Record<OperationResult["action"], readonly [doing: string, done: string]>> = {
  retry: ["Retrying", "retried"],
  cancel: ["Cancelling", "cancelled"],
  delete: ["Deleting", "deleted"],
  update: ["Changing", "changed"],
  promote: ["Making due now:", "due now"],
  purge: ["Purging", "purged"],
};

/** Operations that others start meanwhile are found this often. */
const EVERY_MS = 15_000;

/** The changes of many jobs that run, with their progress. */
export function OperationsPanel(): JSX.Element | null {
  useResource("operations", async () => (may("viewer") ? showRunning() : undefined), { every: EVERY_MS });
  const { value: shown } = operations;
  if (shown.length === 0) return null;
  return (
    <section class="ops" aria-label="Operations">
      {shown.map((each) => (
        <OperationCard key={each.operation.id} shown={each} />
      ))}
    </section>
  );
}

function OperationCard({ shown: { operation, expected } }: { shown: Shown }): JSX.Element {
  const { id, action, state, examined, total, actor, rate } = operation;
  const isRunning = state === "running";
  const all = total ?? expected;
  const share = isRunning ? (all === null || all === 0 ? null : Math.min(1, examined / all)) : 1;
  const [doing] = WORDS[action];
  const result = resultText(operation);
  useEffect(() => {
    if (!isRunning) announced.value = result;
  }, [isRunning]);
  return (
    <div class={`toast op-toast ${state === "failed" ? "s-dead" : state === "stopped" ? "s-failed" : ""}`}>
      <div class="grow">
        <div class="row">
          <b class="strong cut">{isRunning ? `${doing} ${all === null ? "jobs" : plural(all, "job")}` : result}</b>
          {isRunning && share !== null && <span class="t3 push">{Math.floor(share * 100)}%</span>}
        </div>
        {isRunning && (
          <svg
            class={`meter ${share === null ? "unknown" : ""}`}
            viewBox="0 0 100 6"
            preserveAspectRatio="none"
            role="progressbar"
            aria-label={doing}
            aria-valuemin={0}
            aria-valuemax={100}
            aria-valuenow={share === null ? undefined : Math.floor(share * 100)}
          >
            <rect class="s-accent" x="0" y="0" width={(share ?? 0.3) * 100} height="6" />
          </svg>
        )}
        <div class="row t3">
          <span class="cut">
            {isRunning && (all === null ? number(examined) : `${number(examined)} of ${number(all)}`)}
            {isRunning ? " · " : ""}
            {isRunning && rate !== null && `at ${number(rate)} a second · `}
            by <bdi>{actor}</bdi>
            {isRunning && <Until operation={operation} share={share} />}
          </span>
          {may("admin") && (
            <a class="link push" href={auditHref(operation)}>
              Audit
            </a>
          )}
        </div>
      </div>
      {isRunning ? (
        may("operator") && (
          <Button icon="stop" small onClick={() => act(() => stopOperation(id))}>
            Stop
          </Button>
        )
      ) : (
        <Button icon="x" kind="ghost" small label="Dismiss" onClick={() => dismissOperation(id)} />
      )}
    </div>
  );
}

/** The entries of its actor while it ran. */
function auditHref({ actor, startedAt, endedAt }: OperationResult): string {
  // Times of other servers differ a little, and the entry of its end may be of the same millisecond.
  const before = endedAt === null ? undefined : new Date(Date.parse(endedAt) + 1_000).toISOString();
  return hrefOf("/audit", { actor, after: startedAt, before });
}

/** When it ends at the speed so far; from 5 seconds on, and if that is not at once. */
function Until({ operation, share }: { operation: OperationResult; share: number | null }): JSX.Element | null {
  const spent = now.value - Date.parse(operation.startedAt);
  if (share === null || share < 0.01 || spent < 5_000) return null;
  const left = spent / share - spent;
  return left < 10_000 ? null : <span class="wide-only"> · until {clock(now.value + left)}</span>;
}

function resultText({ action, state, changed, requested, skipped, error }: OperationResult): string {
  const [, done] = WORDS[action];
  const stops = requested > 0 ? `, ${number(requested)} of them asked to stop` : "";
  const text = `${plural(changed, "job")} ${done}${stops}`;
  if (state === "failed") return `Failed after ${text}: ${error ?? "unknown error"}`;
  const rest = skippedWords(skipped);
  return `${state === "stopped" ? "Stopped. " : ""}${text}.${rest === "" ? "" : ` ${rest}.`}`;
}
