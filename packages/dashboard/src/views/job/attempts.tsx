import type { JobDetail } from "holdfast/admin";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { duration, exact, number, seconds } from "../../app/format.js";
import { Copy } from "../../ui/copy.js";
import { Icon } from "../../ui/icon.js";
import { cut, parseJson } from "../../ui/json-model.js";
import { JsonTree, LongText } from "../../ui/json-tree.js";
import { errorName, framesOf, plain, type AttemptError } from "./error-text.js";
import { jobsHref } from "../../app/links.js";
import { lookOf } from "./timeline-card.js";

type Attempt = JobDetail["attempts"][number];

const SHOWN = 5;
export function Attempts({ job, sameError }: { job: JobDetail; sameError: string | null }): JSX.Element {
  const [shown, setShown] = useState(SHOWN);
  const { attempts, attempt, maxAttempts } = job;
  const newest = attempts.toReversed();
  const older = newest.length - shown;
  const missing = (attempts[0]?.attempt ?? 1) - 1;
  return (
    <section class="card">
      <div class="card-h lined">
        <h2>Attempts</h2>
        <span class="meta">
          {number(attempt)} of {number(maxAttempts)} used
          {missing > 0 && `, the last ${attempts.length} are kept`}
        </span>
        {sameError !== null && job.error?.fingerprint != null && (
          <a class="btn ghost sm push" href={jobsHref({ fingerprint: job.error.fingerprint })}>
            <Icon name="group" />
            <span>{sameError} with this error</span>
          </a>
        )}
      </div>
      {newest.length === 0 && (
        <p class="none t3">{job.startedAt === null ? "It has not started yet." : "The first attempt is running."}</p>
      )}
      {newest.slice(0, shown).map((each, at) => (
        <OneAttempt key={`${each.fence ?? ""} ${each.endedAt}`} attempt={each} isNewest={at === 0} />
      ))}
      {older > 0 && (
        <div class="card-f">
          <button type="button" class="link" onClick={() => setShown(attempts.length)}>
            Show {older} older
          </button>
        </div>
      )}
    </section>
  );
}

function OneAttempt({ attempt, isNewest }: { attempt: Attempt; isNewest: boolean }): JSX.Element {
  const { end, error, worker, startedAt, claimedAt, endedAt, fence } = attempt;
  const [isOpen, setOpen] = useState(isNewest && error !== null);
  const [icon, colour, word] = lookOf(end);
  const started = startedAt ?? claimedAt;
  const lasted = started === null ? null : duration(Date.parse(endedAt) - Date.parse(started));
  const message = error === null ? "" : plain(error.message);
  return (
    <details class="att" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Icon name="chev" class="chev" />
        <span class="strong nowrap">Attempt {attempt.attempt}</span>
        <span class={`state s-${colour}`}>
          <Icon name={icon} />
          {word}
        </span>
        <span class="t3 cut grow wide-only" title={cut(message, 2_000)}>
          <bdi>{cut(message, 300)}</bdi>
        </span>
        <span class="t3 nowrap push when-ran">
          {worker !== null && (
            <>
              <bdi class="cut worker" title={worker}>
                {worker}
              </bdi>
              {" · "}
            </>
          )}
          {lasted !== null && `${lasted} · `}
          <time dateTime={endedAt} title={exact(Date.parse(endedAt))}>
            {seconds(Date.parse(endedAt))}
          </time>
        </span>
      </summary>
      {isOpen && (
        <div class="inner">
          {error === null ? (
            <p class="t3">{NO_ERROR[end]}</p>
          ) : (
            <ErrorBox error={error} note={end === "expired" ? NO_ERROR.expired : null} />
          )}
          {fence !== null && <p class="t3 fence">Fencing token {number(fence)}</p>}
        </div>
      )}
    </details>
  );
}

const NO_ERROR: Readonly<Record<Attempt["end"], string>> = {
  completed: "It completed.",
  failed: "It failed. Its error was not stored.",
  cancelled: "It was cancelled while it ran.",
  expired: "The worker stopped extending its lease: it crashed, or was cut off.",
  released: "Its worker was stopped and gave it back. That does not count as an attempt, up to three times.",
};

function ErrorBox({ error, note }: { error: AttemptError; note: string | null }): JSX.Element {
  return (
    <>
      <div class="errbox">
        <Summary error={error} />
      </div>
      {note !== null && <p class="t3">{note}</p>}
      {error.data !== null && <ErrorData data={error.data} />}
      {causesOf(error).map((cause, at) => (
        <div key={at} class="cause">
          <span class="t3">{at === 0 ? "Cause" : "Its cause"}</span>
          <div>
            <code>
              <Summary error={cause} />
            </code>
            {cause.stack !== null && (
              <details>
                <summary class="more-json">Its stack</summary>
                <Stack stack={cause.stack} />
              </details>
            )}
          </div>
        </div>
      ))}
      {error.stack !== null && (
        <div class="with-copy">
          <Stack stack={error.stack} />
          <Copy text={error.stack} label="Copy the stack" />
        </div>
      )}
    </>
  );
}

function Summary({ error }: { error: AttemptError }): JSX.Element {
  const name = errorName(error);
  return (
    <bdi>
      {name !== null && <b>{name} </b>}
      <LongText text={plain(error.message)} first={LONG}>
        {(shown) => <>{shown}</>}
      </LongText>
      {error.code !== null && <span class="t3"> code {error.code}</span>}
    </bdi>
  );
}

const LONG = 1_000;

function causesOf(error: AttemptError): AttemptError[] {
  const causes: AttemptError[] = [];
  for (let { cause } = error; cause !== null; { cause } = cause) causes.push(cause);
  return causes;
}

function ErrorData({ data }: { data: Readonly<Record<string, unknown>> }): JSX.Element | null {
  const { node } = parseJson(JSON.stringify(data));
  return node === undefined ? null : <JsonTree node={node} />;
}

function Stack({ stack }: { stack: string }): JSX.Element {
  return (
    <pre class="stack-trace" tabIndex={0}>
      {framesOf(stack).map(({ isOwn, frames }, at) => {
        const text = `${frames.join("\n")}\n`;
        return isOwn ? <b key={at}>{text}</b> : text;
      })}
    </pre>
  );
}
