import { html } from "hono/html";
import { PLANS, type Plan } from "../config.js";
import type { Member } from "../members.js";
import { isActive, type Membership } from "../memberships.js";
import { layout, type Html } from "./layout.js";

/** What is shown besides the member. */
export interface AccountState {
  readonly membership: Membership | null;
  /** What the form that led here did. */
  readonly done?: string | undefined;
  readonly problem?: string | null;
}

const DONE: Readonly<Record<string, string>> = {
  password: "Your password is changed. You are signed out everywhere else.",
  paid: "Thank you, and welcome!",
  pending: "Thank you! Your membership shows here as soon as Stripe reports the payment.",
  ending: "Your membership ends in a moment.",
  discord: "Your Discord account is linked. Your roles follow in a moment.",
  unlinked: "Your Discord account is no longer linked. It loses its roles in a moment.",
  roles: "Your roles follow in a moment, if you are in the server.",
  newsletter: "Saved.",
};

export function accountPage(member: Member, { membership, done, problem }: AccountState): Html {
  const isPending = done === "paid" && (membership === null || !isActive(membership));
  const notice = isPending ? DONE["pending"] : DONE[done ?? ""];
  return layout(
    { title: "Your page", member, notice, problem },
    html`<h1>Hello ${member.name}</h1>
      <div class="grid">${membershipCard(membership)} ${discordCard(member)} ${newsletterCard(member)}</div>`,
  );
}

function membershipCard(membership: Membership | null): Html {
  if (membership !== null && isActive(membership)) {
    const { name, price } = PLANS[membership.plan];
    return html`<section class="card">
      <h2>Membership</h2>
      <p><span class="badge good">${name}</span> ${price}</p>
      <form method="post" action="/membership/end"><button class="quiet">End the membership</button></form>
    </section>`;
  }
  return html`<section class="card">
    <h2>Membership</h2>
    <p>${membership === null ? "You have no membership yet." : "Your membership has ended."}</p>
    <form method="post" action="/membership/join" class="choices">
      ${(Object.keys(PLANS) as Plan[]).map(
        (plan) => html`<button name="plan" value="${plan}">${PLANS[plan].name}, ${PLANS[plan].price}</button>`,
      )}
    </form>
  </section>`;
}

function discordCard({ discordId }: Member): Html {
  return html`<section class="card">
    <h2>Discord</h2>
    <p>
      ${discordId === null ? "Link your account, and your membership gives you a role there." : `Linked: ${discordId}`}
    </p>
    <form method="post" action="/account/discord">
      <label>
        Id of your account
        <input name="discordId" inputmode="numeric" pattern="[0-9]{5,20}" value="${discordId ?? ""}" required />
      </label>
      <button class="quiet">${discordId === null ? "Link" : "Change"}</button>
    </form>
    ${discordId === null ? "" : linkedAccount()}
  </section>`;
}

function linkedAccount(): Html {
  return html`<div class="row">
    <form method="post" action="/account/discord/roles"><button class="quiet">Update my roles</button></form>
    <form method="post" action="/account/discord/unlink"><button class="quiet">Unlink</button></form>
  </div>`;
}

function newsletterCard({ newsletter, email }: Member): Html {
  return html`<section class="card">
    <h2>Newsletter</h2>
    <form method="post" action="/account/newsletter">
      <label class="check">
        <input type="checkbox" name="newsletter" ${newsletter ? "checked" : ""} /> Send it to ${email}
      </label>
      <button class="quiet">Save</button>
    </form>
  </section>`;
}
