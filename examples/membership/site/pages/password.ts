import { html } from "hono/html";
import { layout, type Html } from "./layout.js";
import { emailField, newPasswordField } from "./sign-in.js";

export function forgotPage(problem: string | null = null): Html {
  return layout(
    { title: "Forgot your password?", member: null, problem },
    html`<section class="card narrow">
      <h1>Forgot your password?</h1>
      <p>We send you a link with which you choose a new one.</p>
      <form method="post" action="/password/forgot">
        ${emailField("")}
        <button>Send the link</button>
      </form>
    </section>`,
  );
}

export function newPasswordPage(token: string, problem: string | null = null): Html {
  return layout(
    { title: "Choose a new password", member: null, problem },
    html`<section class="card narrow">
      <h1>Choose a new password</h1>
      <form method="post" action="/password/reset">
        <input type="hidden" name="token" value="${token}" />
        ${newPasswordField()}
        <button>Save the password</button>
      </form>
    </section>`,
  );
}
