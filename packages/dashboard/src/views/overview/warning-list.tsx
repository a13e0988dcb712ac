import type { JSX } from "preact";
import { may } from "../../app/api.js";
import { jobsHref } from "../../app/links.js";
import { resumeQueue } from "../../app/queues.js";
import { hrefOf } from "../../app/router.js";
import { Button } from "../../ui/button.js";
import { Icon } from "../../ui/icon.js";
import type { Piece, Warning } from "./warnings.js";

/** What is wrong comes first; undefined: not known yet. */
export function WarningList({
  warnings,
  onChanged,
}: {
  warnings: readonly Warning[] | undefined;
  onChanged: () => unknown;
}): JSX.Element {
  return (
    <section class="card alerts" aria-label="Needs attention">
      {warnings === undefined || warnings.length === 0 ? (
        <p class="calm">
          <Icon name={warnings === undefined ? "pending" : "check"} />
          {warnings === undefined ? "Checking…" : "Nothing needs attention."}
        </p>
      ) : (
        <ul>
          {warnings.map((warning) => (
            <WarningLine key={warning.key} warning={warning} onChanged={onChanged} />
          ))}
        </ul>
      )}
    </section>
  );
}

function WarningLine({ warning, onChanged }: { warning: Warning; onChanged: () => unknown }): JSX.Element {
  const { level, icon, title, detail, advice, jobs, fingerprint, resume, view } = warning;
  return (
    <li class={`s-${level}`}>
      <Icon name={icon} />
      <p>
        <b class="strong">
          <Pieces of={title} />
        </b>{" "}
        <Pieces of={detail} />{" "}
        <span class="do">
          <Pieces of={advice} />
        </span>
      </p>
      <div class="acts">
        {resume !== undefined && may("operator") && (
          <Button small icon="play" onClick={() => resumeQueue(resume, onChanged)}>
            {resume === null ? "Resume all" : "Resume"}
          </Button>
        )}
        {fingerprint !== undefined && may("operator") && (
          <a class="btn sm" href={hrefOf("/failures", { open: fingerprint, do: "retry" })}>
            <Icon name="retry" />
            Retry…
          </a>
        )}
        {fingerprint !== undefined && (
          <a class="btn sm" href={hrefOf("/failures", { open: fingerprint })}>
            Inspect
          </a>
        )}
        {jobs !== undefined && (
          <a class="btn sm" href={jobsHref(jobs)}>
            Show jobs
          </a>
        )}
        {view !== undefined && (
          <a class="btn sm" href={hrefOf(`/${view}`)}>
            Show {view}
          </a>
        )}
      </div>
    </li>
  );
}

function Pieces({ of: pieces }: { of: readonly Piece[] }): JSX.Element {
  return (
    <>
      {pieces.map((piece, at) =>
        typeof piece === "string" ? (
          piece
        ) : "quoted" in piece ? (
          <bdi key={at}>{piece.quoted}</bdi>
        ) : (
          <code key={at} class="code" dir="auto">
            {piece.name}
          </code>
        ),
      )}
    </>
  );
}
