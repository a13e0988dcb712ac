import type { SmtpInbox } from "@holdfast/mail/testing";
import { Hono } from "hono";
import { html } from "hono/html";
import { listen, type Listening } from "../listen.js";
import { vendorPage } from "./page.js";

/** Shows the mails of an inbox, the newest first. */
export async function startInboxPage(inbox: SmtpInbox): Promise<Listening> {
  const app = new Hono();
  app.get("/", (c) => {
    const mails = inbox.mails.map((mail, at) => ({ ...mail, at })).toReversed();
    const rows = mails.map(
      ({ to, subject, at }) =>
        html`<tr>
          <td><a href="/${at}">${subject}</a></td>
          <td>${to.join(", ")}</td>
        </tr>`,
    );
    return c.html(
      vendorPage(
        "Inbox",
        html`<table>
            <thead>
              <tr>
                <th>Subject</th>
                <th>To</th>
              </tr>
            </thead>
            <tbody>
              ${rows}
            </tbody>
          </table>
          <p class="aside">Reload the page for new mails.</p>`,
      ),
    );
  });
  app.get("/:at{[0-9]+}", (c) => {
    const mail = inbox.mails[Number(c.req.param("at"))];
    if (mail === undefined) return c.notFound();
    return c.html(
      vendorPage(
        mail.subject,
        html`<p class="crumbs"><a href="/">Inbox</a></p>
          <p>To ${mail.to.join(", ")}</p>
          <pre>${withLinks(mail.text)}</pre>`,
      ),
    );
  });
  const server = await listen();
  server.handle(app.fetch);
  return server;
}

function withLinks(text: string): unknown[] {
  return text
    .split(/(https?:\/\/\S+)/)
    .map((part) => (part.startsWith("http") ? html`<a href="${part}">${part}</a>` : part));
}
