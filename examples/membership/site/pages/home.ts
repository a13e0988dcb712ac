import { html } from "hono/html";
import { PLANS } from "../config.js";
import type { Member } from "../members.js";
import { layout, type Html } from "./layout.js";

export function homePage(member: Member | null): Html {
  return layout(
    { title: "A club for people who read", member },
    html`<section class="hero">
        <h1>A club for people who read by lamplight</h1>
        <p>One long essay a month, a newsletter, and good company.</p>
        <a class="button large" href="${member === null ? "/sign-up" : "/account"}">
          ${member === null ? "Join the club" : "Go to your page"}
        </a>
      </section>
      <section class="plans">
        ${Object.values(PLANS).map(
          ({ name, price, about }) =>
            html`<article class="card">
              <h2>${name}</h2>
              <p class="price">${price}</p>
              <p>${about}</p>
            </article>`,
        )}
      </section>`,
  );
}
