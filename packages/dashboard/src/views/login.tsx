import type { JSX } from "preact";
import { SignIn } from "../ui/sign-in.js";
import "../styles/overlays.css";

export default function Login(): JSX.Element {
  document.title = "Sign in · Holdfast";
  return (
    <main class="login">
      <section class="box card">
        <h1 class="brand">
          <svg
            viewBox="0 0 20 20"
            fill="none"
            stroke="currentColor"
            stroke-width="2.2"
            stroke-linecap="round"
            aria-hidden="true"
          >
            <path d="M4.5 2.5v15M15.5 2.5v15" />
            <path d="M4.5 8.2c3.2 0 3.2 3.6 5.5 3.6s2.3-3.6 5.5-3.6" />
          </svg>
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
