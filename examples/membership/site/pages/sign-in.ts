import { html } from "hono/html";
import { MIN_PASSWORD } from "../passwords.js";
import { layout, type Html } from "./layout.js";

/** A form that is shown again with what was typed, except passwords. */
export interface Refused {
  readonly form?: Readonly<Record<string, unknown>>;
  readonly problem?: string | null;
}

export function signUpPage({ form = {}, problem }: Refused = {}): Html {
  return layout(
    { title: "Join", member: null, problem },
    html`<section class="card narrow">
      <h1>Join the club</h1>
      <form method="post">
        <label>Name <input name="name" value="${typed(form["name"])}" autocomplete="name" required /></label>
        ${emailField(form["email"])} ${newPasswordField()}
        <label class="check"><input type="checkbox" name="newsletter" checked /> Send me the newsletter</label>
        <button>Create account</button>
      </form>
      <p class="aside">You have an account? <a href="/sign-in">Sign in</a></p>
    </section>`,
  );
}

export function signInPage({ form = {}, problem }: Refused = {}): Html {
  return layout(
    { title: "Sign in", member: null, problem },
    html`<section class="card narrow">
      <h1>Sign in</h1>
      <form method="post">
        ${emailField(form["email"])}
        <label>Password <input type="password" name="password" autocomplete="current-password" required /></label>
        <button>Sign in</button>
      </form>
      <p class="aside"><a href="/password/forgot">Forgot your password?</a></p>
    </section>`,
  );
}

export function emailField(value: unknown): Html {
  return html`<label>
    Email <input type="email" name="email" value="${typed(value)}" autocomplete="email" required />
  </label>`;
}

export function newPasswordField(): Html {
  return html`<label>
    Password
    <input type="password" name="password" autocomplete="new-password" minlength="${MIN_PASSWORD}" required />
    <small>At least ${MIN_PASSWORD} characters</small>
  </label>`;
}

function typed(value: unknown): string {
  return typeof value === "string" ? value : "";
}
