import type { ExplanationResult, JobDetail } from "holdfast/admin";
import type { JSX } from "preact";
import { may } from "../../app/api.js";
import { now } from "../../app/now.js";
import { hrefOf } from "../../app/router.js";
import { resumeQueue } from "../../app/queues.js";
import { Button } from "../../ui/button.js";
import { Icon } from "../../ui/icon.js";
import { jobHref } from "../../app/links.js";
import { RetryChecks } from "../../overlays/enqueue/outlook.js";
import { whyOf, type WhyAction } from "./why.js";

interface WhyCardProps {
  job: JobDetail;
  explanation: ExplanationResult;
  onPromote: () => unknown;
  onEdit: () => unknown;
  /** After a queue was resumed. */
  onChange: () => Promise<unknown>;
}

/** Why the job does not run: the decisive reason, what would change it, then the others. */
export function WhyCard({ job, explanation, onPromote, onEdit, onChange }: WhyCardProps): JSX.Element {
  const [first, ...others] = explanation.reasons.map((reason) => whyOf(reason, job, now.value));
  const hasEnded = job.state === "dead" || job.state === "cancelled";
  const asks = hasEnded || job.state === "pending" || job.state === "failed";
  if (first === undefined) return <></>;
  const actions = (list: readonly WhyAction[]): JSX.Element[] =>
    list.map((action) => (
      <Act key={action.kind} action={action} onPromote={onPromote} onEdit={onEdit} onChange={onChange} />
    ));
  return (
    <section class={`card why s-${first.colour}`}>
      <div class="lead">
        <Icon name={first.icon} />
        <div>
          <h2>
            {asks && <span class="q">Why is it not running? </span>}
            <bdi>{first.title}</bdi>
          </h2>
          {first.text !== "" && (
            <p>
              <bdi>{first.text}</bdi>
            </p>
          )}
        </div>
        {first.actions.length > 0 && <div class="acts">{actions(first.actions)}</div>}
      </div>
      {others.length > 0 && (
        <ul class="others">
          {others.map(({ title, text, icon, colour, actions: offered }) => (
            <li key={title} class={`s-${colour}`}>
              <Icon name={icon} />
              <span>
                <bdi>{title}</bdi> <span class="t3">{text}</span>
              </span>
              {offered.length > 0 && <span class="row push">{actions(offered)}</span>}
            </li>
          ))}
        </ul>
      )}
      {hasEnded && others.length === 0 && may("operator") && <RetryChecks type={job.type} queue={job.queue} />}
    </section>
  );
}

function Act({
  action,
  onPromote,
  onEdit,
  onChange,
}: { action: WhyAction } & Pick<WhyCardProps, "onPromote" | "onEdit" | "onChange">): JSX.Element | null {
  switch (action.kind) {
    case "promote":
      return may("operator") ? (
        <Button small icon="play" onClick={onPromote}>
          Run now
        </Button>
      ) : null;
    case "priority":
      return may("operator") ? (
        <Button small icon="priority" onClick={onEdit}>
          Change priority…
        </Button>
      ) : null;
    case "resume": {
      const { queue } = action;
      return may("operator") ? (
        <Button small icon="play" onClick={() => resumeQueue(queue, onChange)}>
          {queue === null ? "Resume all" : "Resume"}
        </Button>
      ) : null;
    }
    case "queues":
      return may("viewer") ? <Link href={hrefOf("/queues")}>Queues</Link> : null;
    case "workers":
      return may("viewer") ? <Link href={hrefOf("/workers", { open: action.id })}>Workers</Link> : null;
    case "job":
      return <Link href={jobHref(action.id)}>Show that job</Link>;
  }
}

function Link({ href, children }: { href: string; children: string }): JSX.Element {
  return (
    <a class="btn sm" href={href}>
      {children}
    </a>
  );
}
