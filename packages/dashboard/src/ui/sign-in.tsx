import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, AdminError, messageOf, signedIn } from "../app/api.js";
import { Button } from "./button.js";
import { Icon } from "./icon.js";

/** Exchanges an API token for a session cookie. The token is not stored. */
export function SignIn({ onDone }: { onDone?: () => void }): JSX.Element {
  const [token, setToken] = useState("");
  const [error, setError] = useState<string | null>(null);
  const [disabled, setDisabled] = useState<string | null>(null);
  const submit = async (): Promise<void> => {
    try {
      signedIn(await api.session.start({ token: token.trim() }));
      onDone?.();
    } catch (thrown) {
      // The application that serves this page decides who is let in.
      if (thrown instanceof AdminError && thrown.code === "SESSIONS_DISABLED") return setDisabled(messageOf(thrown));
      const isWrong = thrown instanceof AdminError && (thrown.status === 401 || thrown.status === 400);
      setError(isWrong ? "This token is not valid. It may have expired or been revoked." : messageOf(thrown));
    }
  };
  if (disabled !== null) {
    return (
      <div class="stack tightest" role="alert">
        <div class="note s-failed">
          <Icon name="lock" />
          <span>{disabled}</span>
        </div>
        <p class="t2">Sign in to the application that serves this page, then load it again.</p>
        <Button kind="primary" onClick={() => location.reload()}>
          Load again
        </Button>
      </div>
    );
  }
  return (
    <form
      class="stack tightest"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <div class="field">
        <label for="token">API token</label>
        <input
          id="token"
          class={`input mono ${error === null ? "" : "bad"}`}
          type="password"
          autocomplete="current-password"
          spellcheck={false}
          required
          value={token}
          aria-describedby="token-error"
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <p id="token-error" class="err" role="alert">
          {error !== null && (
            <>
              <Icon name="alert" />
              <span>{error}</span>
            </>
          )}
        </p>
      </div>
      <Button kind="primary" type="submit">
        Sign in
      </Button>
      <p class="t3">
        No token? On the server, run
        <br />
        <code class="code">npx holdfast tokens create ada --role operator</code>
      </p>
    </form>
  );
}
