import type { JSX } from "preact";
import { SignIn } from "../ui/sign-in.js";

export default function Login(): JSX.Element {
  document.title = "Sign in · Holdfast";
  return (
    <main class="login">
      <section class="card">
        <h1>Sign in to Holdfast</h1>
        <SignIn />
        <details>
          <summary>Where do I get a token?</summary>
          <p>On the server, run:</p>
          <pre class="code-b">holdfast tokens create my-name --role operator</pre>
        </details>
      </section>
    </main>
  );
}
