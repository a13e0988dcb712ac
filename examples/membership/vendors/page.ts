import { html, raw } from "hono/html";
import type { Html } from "../site/pages/layout.js";
import { STYLE } from "../site/pages/style.js";

/** A page of a stand-in. */
export function vendorPage(title: string, content: Html): Html {
  return html`${raw("<!doctype html>")}
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <link rel="icon" href="data:," />
        <title>${title}</title>
        <style>
          ${raw(STYLE)}
        </style>
      </head>
      <body>
        <main>
          <section class="card">
            <h1>${title}</h1>
            ${content}
          </section>
        </main>
      </body>
    </html>`;
}
