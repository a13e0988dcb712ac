import type { NewsletterMessage } from "@holdfast/mail";
import { html, raw } from "hono/html";
import type { Html } from "./layout.js";

type Built = Awaited<ReturnType<NewsletterMessage>>;

/** The mail as its reader sees it. It is shown in a frame that runs nothing. */
export function previewPage(mail: Built): Html {
  const body = "skip" in mail ? "" : (mail.htmlBody ?? "");
  return html`${raw("<!doctype html>")}
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>Preview</title>
        <link rel="stylesheet" href="/style.css" />
      </head>
      <body class="preview">
        ${raw(body)}
      </body>
    </html>`;
}
