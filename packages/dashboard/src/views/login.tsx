import type { JSX } from "preact";
import { Logo } from "../ui/logo.js";
import { SignIn } from "../ui/sign-in.js";

export default function Login(): JSX.Element {
  document.title = "Sign in · Holdfast";
  return (
    <main class="login">
      <section class="box card">
        <h1 class="brand">
          <Logo />
          <span>
            <span class="sr">Sign in to </span>Holdfast
          </span>
        </h1>
        <SignIn />
      </section>
      <footer>The token is exchanged for a cookie, and is not kept in this browser.</footer>
    </main>
  );
}
