import { html } from "hono/html";
import { layout, type Html } from "./layout.js";

/** A page with a sentence, and with a button if there is something to confirm. */
export function noticePage(title: string, text: string, { submit }: { submit?: string } = {}): Html {
  return layout(
    { title, member: null },
    html`<section class="card narrow">
      <h1>${title}</h1>
      <p>${text}</p>
      ${submit === undefined ? "" : html`<form method="post"><button>${submit}</button></form>`}
    </section>`,
  );
}
