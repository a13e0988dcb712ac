import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";
import { InvalidOptionError } from "../../errors.js";
import type { Store } from "../../store.js";

const CIPHER = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
// The length would tell how many digits a position has, and so how many jobs there are.
const BLOCK_BYTES = 32;

/**
 * Cursors of lists as callers see them. A store's own say how many jobs it has had in all, which is not the business of a user who
 * may see only their own: so they are encrypted, with a key that all processes on the store share.
 */
export class Cursors {
  readonly #store: Pick<Store, "cursorKey">;
  #key: Promise<Buffer> | null = null;

  constructor(store: Pick<Store, "cursorKey">) {
    this.#store = store;
  }

  /** What a caller is given for a position in the store. */
  async seal(position: string): Promise<string> {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, await this.#keyOf(), nonce);
    const padded = position.padEnd(Math.ceil(position.length / BLOCK_BYTES) * BLOCK_BYTES);
    const sealed = Buffer.concat([cipher.update(padded, "utf8"), cipher.final()]);
    return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString("base64url");
  }

  /** The position that a cursor stands for. Throws `InvalidOptionError` for one that `seal` did not make on this store. */
  async open(cursor: string): Promise<string> {
    const bytes = Buffer.from(cursor, "base64url");
    // Letters after the last whole byte would be ignored.
    if (bytes.length <= NONCE_BYTES + TAG_BYTES || bytes.toString("base64url") !== cursor) throw notOurs();
    const [nonce, rest] = [bytes.subarray(0, NONCE_BYTES), bytes.subarray(NONCE_BYTES)];
    const decipher = createDecipheriv(CIPHER, await this.#keyOf(), nonce, { authTagLength: TAG_BYTES });
    decipher.setAuthTag(rest.subarray(0, TAG_BYTES));
    try {
      return Buffer.concat([decipher.update(rest.subarray(TAG_BYTES)), decipher.final()])
        .toString("utf8")
        .trimEnd();
    } catch {
      throw notOurs();
    }
  }

  /** Read when it is first needed; a store that does not answer is asked again. */
  #keyOf(): Promise<Buffer> {
    this.#key ??= this.#store.cursorKey().then((text) => createHash("sha256").update(text).digest());
    this.#key.catch(() => (this.#key = null));
    return this.#key;
  }
}

function notOurs(): InvalidOptionError {
  return new InvalidOptionError("cursor", "is not a cursor that list gave; begin again without one");
}
