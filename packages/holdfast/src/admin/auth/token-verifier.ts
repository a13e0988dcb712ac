import { createHash } from "node:crypto";
import { engineOf, type Holdfast } from "../../engine/client/holdfast.js";
import { readKnownTokens, type KnownTokens, type TokenIdentity } from "../../engine/client/tokens.js";
import { LIMITS } from "../../defaults.js";
import type { LoginThrottle } from "./login-throttle.js";
import { cached } from "../calls/cached.js";

/** `waitMs` > 0: the client address sent too many invalid tokens and may retry after this time. */
export type Verified = { identity: TokenIdentity } | { identity: null; waitMs: number };

// The list of all tokens is used only to recognize guesses and for open event streams. A token that may be valid is always looked up
// in the store.
const CACHE_MS = 1_000;

/** Verifies API tokens. Valid tokens are always accepted; guesses cost the store little. */
export class TokenVerifier {
  readonly #hf: Holdfast;
  readonly #throttle: LoginThrottle;
  readonly #allTokens: () => Promise<KnownTokens>;
  // Hashes of tokens that were valid when last used: requests with them are not counted, however many run concurrently.
  readonly #recentlyValid = new Set<string>();

  constructor(hf: Holdfast, throttle: LoginThrottle) {
    this.#hf = hf;
    this.#throttle = throttle;
    this.#allTokens = cached(() => readKnownTokens(engineOf(hf)), CACHE_MS);
  }

  /** Whether a token exists. An expired one counts: its end must not turn authentication off. Up to a second old. */
  async hasToken(): Promise<boolean> {
    return (await this.#allTokens()).any;
  }

  /** The identity of a token that was verified earlier; null if it was revoked or has expired since. Up to a second old. */
  async identityOf(tokenId: string): Promise<TokenIdentity | null> {
    return (await this.#allTokens()).identityOf(tokenId);
  }

  async verify(token: string, address: string | null): Promise<Verified> {
    const hash = createHash("sha256").update(token).digest("base64");
    if (this.#recentlyValid.has(hash)) {
      const identity = await this.#hf.tokens.check(token);
      if (identity !== null) return { identity };
      this.#recentlyValid.delete(hash);
    }
    const { clock } = engineOf(this.#hf);
    const waitMs = this.#throttle.waitMs(address, clock.now());
    // Valid clients may share the address with an attacker. So a throttled address is checked against the cached list:
    // valid tokens pass, and all guesses together cost the store one read per second.
    if (waitMs > 0 && !(await this.#allTokens()).has(token)) return { identity: null, waitMs };
    // Counted before the lookup, so that concurrent guesses are counted too.
    const undo = this.#throttle.recordFailure(address, clock.now());
    const identity = await this.#hf.tokens.check(token);
    if (identity === null) return { identity: null, waitMs: 0 };
    undo();
    if (this.#recentlyValid.size >= LIMITS.tokens) this.#recentlyValid.clear();
    this.#recentlyValid.add(hash);
    return { identity };
  }
}
