import type { Newsletter, SendRunReport } from "@holdfast/mail";
import { html } from "hono/html";
import type { Member } from "../members.js";
import { layout, time, timeField, type Html } from "./layout.js";

/** The list of newsletters, with the form for a new one. */
export interface ListState {
  readonly letters: readonly Newsletter[];
  /** How many runs `dispatch-due` enqueued. */
  readonly dispatched?: string | undefined;
  readonly problem?: string | null;
}

export function listPage(member: Member, { letters, dispatched, problem }: ListState): Html {
  const notice = dispatched === undefined ? null : `Send runs that were due without a job: ${dispatched}. Enqueued.`;
  return layout(
    { title: "Newsletters", member, notice, problem },
    html`<h1>Newsletters</h1>
      <section class="card">
        <h2>New newsletter</h2>
        <form method="post" action="/staff/newsletters">${contentFields()} <button>Create</button></form>
      </section>
      <section class="card">
        <h2>All newsletters</h2>
        ${letters.length === 0 ? html`<p>There are none yet.</p>` : ""}
        <ul class="list">
          ${letters.map(
            ({ id, subject, createdAt }) =>
              html`<li><a href="/staff/newsletters/${id}">${subject}</a> <small>${time(createdAt)}</small></li>`,
          )}
        </ul>
        <form method="post" action="/staff/newsletters/dispatch-due">
          <button class="quiet">Send what is overdue</button>
          <small>Enqueues send runs whose time has come and whose job is missing.</small>
        </form>
      </section>`,
  );
}

/** One newsletter with its send runs. */
export interface EditorState {
  readonly letter: Newsletter;
  readonly runs: readonly SendRunReport[];
  readonly subscribers: number;
  readonly problem: string | null;
}

export function editorPage(member: Member, { letter, runs, subscribers, problem }: EditorState): Html {
  const { id, subject } = letter;
  const isSent = runs.some(({ status }) => status === "sending" || status === "sent");
  return layout(
    { title: subject, member, problem },
    html`<p class="crumbs"><a href="/staff/newsletters">Newsletters</a></p>
      <h1>${subject}</h1>
      <div class="grid two">
        <section class="card">
          <h2>Text</h2>
          ${
            isSent
              ? html`<p>It was sent, so it cannot be changed any more.</p>`
              : html`<form method="post" action="/staff/newsletters/${id}">
                  ${contentFields(letter)} <button class="quiet">Save</button>
                </form>`
          }
        </section>
        <section class="card">
          <h2>Preview</h2>
          <iframe title="Preview" src="/staff/newsletters/${id}/preview" sandbox></iframe>
        </section>
      </div>
      <section class="card">
        <h2>Send</h2>
        <form method="post" action="/staff/newsletters/${id}/runs" class="row">
          ${timeInput(new Date(Date.now() + 3_600_000))}
          <button>Schedule for ${subscribers} ${subscribers === 1 ? "subscriber" : "subscribers"}</button>
        </form>
        ${runs.map(runRow)}
      </section>`,
  );
}

function runRow({ id, status, scheduledFor, recipients, deliveries }: SendRunReport): Html {
  return html`<article class="run" data-run="${id}">
    <p><span class="badge ${BADGES[status]}">${status}</span> ${time(scheduledFor)}</p>
    ${
      recipients === null && status !== "sending"
        ? ""
        : html`<dl class="counts">
            <div>
              <dt>Recipients</dt>
              <dd>${recipients ?? "…"}</dd>
            </div>
            <div>
              <dt>Sent</dt>
              <dd>${deliveries.sent}</dd>
            </div>
            <div>
              <dt>Queued</dt>
              <dd>${deliveries.queued}</dd>
            </div>
            <div>
              <dt>Failed</dt>
              <dd>${deliveries.failed}</dd>
            </div>
            <div>
              <dt>Skipped</dt>
              <dd>${deliveries.skipped}</dd>
            </div>
          </dl>`
    }
    ${
      status === "scheduled"
        ? html`<div class="row">
            <form method="post" action="/staff/runs/${id}/move" class="row">
              ${timeInput(scheduledFor)} <button class="quiet">Move</button>
            </form>
            <form method="post" action="/staff/runs/${id}/cancel"><button class="quiet">Cancel</button></form>
          </div>`
        : ""
    }
  </article>`;
}

const BADGES = { scheduled: "", sending: "busy", sent: "good", cancelled: "" } as const;

function contentFields({ subject, textBody }: Pick<Newsletter, "subject" | "textBody"> = NEW): Html {
  return html`<label>Subject <input name="subject" value="${subject}" maxlength="200" required /></label>
    <label>Text <textarea name="textBody" rows="8" required>${textBody ?? ""}</textarea></label>`;
}

const NEW = { subject: "", textBody: "" };

function timeInput(at: Date): Html {
  return html`<label>Time (UTC) <input type="datetime-local" name="at" step="1" value="${timeField(at)}" /></label>`;
}
