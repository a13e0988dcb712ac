import type { JobDetail } from "holdfast/admin";
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { exact, plural, preciseClock } from "../../app/format.js";
import { Copy } from "../../ui/copy.js";
import { parseJson } from "../../ui/json-model.js";
import { JsonTree } from "../../ui/json-tree.js";
import { plain } from "./error-text.js";

const MAX_LINES = 100;
/** Pixels from the end. */
const NEAR = 24;

/** The lines that the handler logged. The store keeps the last 100, of at most 1000 characters each. */
export function LogCard({ log }: Pick<JobDetail, "log">): JSX.Element {
  const list = useRef<HTMLOListElement>(null);
  const isAtEnd = useRef(true);
  // The newest line is shown, unless someone has scrolled up.
  useLayoutEffect(() => {
    if (isAtEnd.current) list.current?.scrollTo(0, list.current.scrollHeight);
  }, [log.at(-1)?.at, log.length]);
  return (
    <section class="card">
      <div class="card-h lined">
        <h2>Log</h2>
        <span class="meta">{log.length >= MAX_LINES ? `the last ${MAX_LINES} lines` : plural(log.length, "line")}</span>
        <span class="push">
          <Copy text={log.map(({ at, line }) => `${at} ${line}`).join("\n")} label="Copy the log">
            Copy
          </Copy>
        </span>
      </div>
      <ol
        ref={list}
        class="log code-b"
        tabIndex={0}
        aria-label="Log"
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) =>
          (isAtEnd.current = scrollHeight - scrollTop - clientHeight < NEAR)
        }
      >
        {log.map(({ at, line }, index) => (
          <li key={`${at} ${index}`}>
            <time dateTime={at} title={exact(Date.parse(at))}>
              {preciseClock(Date.parse(at))}
            </time>
            <span dir="auto">{plain(line)}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}

/** What the handler reported last. */
export function Progress({ progress, state }: Pick<JobDetail, "progress" | "state">): JSX.Element | null {
  if (progress === null) return null;
  const percent = Math.round(Math.min(1, Math.max(0, progress.fraction)) * 100);
  const data = progress.data === null ? undefined : parseJson(JSON.stringify(progress.data)).node;
  return (
    <section class="card progress">
      <div class="card-h">
        <h2>Progress</h2>
        <span class="meta cut grow" dir="auto" title={progress.note ?? undefined}>
          {progress.note ?? ""}
        </span>
        <span class="num strong">{percent} %</span>
      </div>
      <div class="card-b">
        <svg
          class={`meter s-${state}`}
          viewBox="0 0 100 6"
          preserveAspectRatio="none"
          role="progressbar"
          aria-label="Progress"
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={percent}
        >
          <rect width={percent} height="6" />
        </svg>
        {data !== undefined && <JsonTree node={data} />}
      </div>
    </section>
  );
}
