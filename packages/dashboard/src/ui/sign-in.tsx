import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, AdminError, messageOf, session } from "../app/api.js";
import { forgetAll } from "../app/resource.js";
import { Button } from "./button.js";
import { Icon } from "./icon.js";

/** Exchanges an API token for a session cookie. The token is not stored. */
export function SignIn({ onDone }: { onDone?: () => void }): JSX.Element {
  const [token, setToken] = useState("");
  const [error, setError] = useState<string | null>(null);
  const submit = async (): Promise<void> => {
    const before = session.peek();
    try {
      const next = await api.session.start({ token: token.trim() });
      if (before === "none") forgetAll();
      session.value = next;
      onDone?.();
    } catch (thrown) {
      const isWrong = thrown instanceof AdminError && (thrown.status === 401 || thrown.status === 400);
      setError(isWrong ? "This token is not valid. It may have expired or been revoked." : messageOf(thrown));
    }
  };
  return (
    <form
      class="stack"
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
              {error}
            </>
          )}
        </p>
      </div>
      <Button kind="primary" type="submit">
        Sign in
      </Button>
    </form>
  );
}
