import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, AdminError, messageOf, signedIn } from "../app/api.js";
import { Button } from "./button.js";
import { TextField } from "./field.js";
import { Icon } from "./icon.js";

/** Exchanges an API token for a session cookie. The token is not stored. */
export function SignIn({ onDone }: { onDone?: () => void }): JSX.Element {
  const [token, setToken] = useState("");
  const [error, setError] = useState<string | undefined>();
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
      <TextField
        id="token"
        autofocus
        label="API token"
        class="mono"
        type="password"
        autocomplete="current-password"
        required
        error={error}
        value={token}
        onText={setToken}
      />
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
