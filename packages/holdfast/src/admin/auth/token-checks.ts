import { createHash } from "node:crypto";
import { engineOf, type Holdfast } from "../../engine/client/holdfast.js";
import { readKnownTokens, type KnownTokens, type TokenIdentity } from "../../engine/client/tokens.js";
import { LIMITS } from "../../defaults.js";
import type { Attempts } from "./login-throttle.js";
import { remembered } from "../calls/cached.js";

/** Who a token stands for, or nobody; and then how long it takes until its sender's guesses are forgotten, if they are too many. */
export type Checked = { found: TokenIdentity } | { found: null; waitMs: number };

// How old what is known of all tokens together may be. Whether one that may be right is so the store is asked each time.
const KNOWN_MS = 1_000;

/** Checks tokens that are sent, so that those which are right always come in, and guesses cost the store little. */
export class TokenChecks {
  readonly #hf: Holdfast;
  readonly #attempts: Attempts;
  readonly #known: () => Promise<KnownTokens>;
  // Hashes of those that were right when they last came: nobody counts them, however many come at once.
  readonly #right = new Set<string>();

  constructor(hf: Holdfast, attempts: Attempts) {
    this.#hf = hf;
    this.#attempts = attempts;
    this.#known = remembered(() => readKnownTokens(engineOf(hf)), KNOWN_MS);
  }

  /** Whether there is a token that counts, as of a second ago. */
  async any(): Promise<boolean> {
    return (await this.#known()).any;
  }

  async check(token: string, address: string | null): Promise<Checked> {
    const hash = createHash("sha256").update(token).digest("base64");
    if (this.#right.has(hash)) {
      const found = await this.#hf.tokens.check(token);
      if (found !== null) return { found };
      this.#right.delete(hash);
    }
    const { clock } = engineOf(this.#hf);
    const waitMs = this.#attempts.waitMs(address, clock.now());
    // Whoever guesses may share an address with everybody else: a token that is right comes in, and guesses together cost the
    // store one reading a second.
    if (waitMs > 0 && !(await this.#known()).has(token)) return { found: null, waitMs };
    // Counted before it is known, so that guesses at the same time are counted too.
    const takeBack = this.#attempts.failed(address, clock.now());
    const found = await this.#hf.tokens.check(token);
    if (found === null) return { found: null, waitMs: 0 };
    takeBack();
    if (this.#right.size >= LIMITS.tokens) this.#right.clear();
    this.#right.add(hash);
    return { found };
  }
}
