import { html, raw } from "hono/html";
import type { HtmlEscapedString } from "hono/utils/html";
import type { Member } from "../members.js";

/** A piece of a page. `html` escapes every value in it. */
export type Html = HtmlEscapedString | Promise<HtmlEscapedString>;

/** What all pages have. */
export interface Layout {
  readonly title: string;
  readonly member: Member | null;
  /** A line above the content. */
  readonly notice?: string | null | undefined;
  readonly problem?: string | null | undefined;
}

export function layout({ title, member, notice, problem }: Layout, content: Html): Html {
  return html`${raw("<!doctype html>")}
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title} · Lantern Club</title>
        <link rel="stylesheet" href="/style.css" />
      </head>
      <body>
        <header class="bar">
          <a class="brand" href="/">Lantern Club</a>
          <nav>${navigation(member)}</nav>
        </header>
        <main>
          ${notice == null ? "" : html`<p class="notice" role="status">${notice}</p>`}
          ${problem == null ? "" : html`<p class="problem" role="alert">${problem}</p>`} ${content}
        </main>
      </body>
    </html>`;
}

function navigation(member: Member | null): Html {
  if (member === null) return html`<a href="/sign-in">Sign in</a> <a class="button" href="/sign-up">Join</a>`;
  return html`${
      member.isStaff
        ? html`<a href="/staff/newsletters">Newsletters</a> <a href="/staff/jobs/">Jobs</a>`
        : html`<a href="/account">Your page</a>`
    }
    <form method="post" action="/sign-out"><button class="plain">Sign out</button></form>`;
}

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** For HTML that is not built with `html`, such as that of mails. */
export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ESCAPES[character] ?? character);
}

/** A time as people read it, in UTC. */
export function time(at: Date): Html {
  const words = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium", timeZone: "UTC" }).format(
    at,
  );
  return html`<time datetime="${at.toISOString()}">${words} UTC</time>`;
}

/** A time as the field of a form has it, in UTC. */
export function timeField(at: Date): string {
  return at.toISOString().slice(0, 19);
}
