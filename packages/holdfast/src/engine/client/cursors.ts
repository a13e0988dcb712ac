import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";
import { InvalidOptionError } from "../../errors.js";
import type { Store } from "../../store.js";

const CIPHER = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
// Positions are padded: their length would reveal how many jobs exist.
const BLOCK_BYTES = 32;

/**
 * Cursors of lists, as callers see them. The store's own cursors reveal how many jobs it has stored in total, which a user who may
 * see only their own jobs must not learn. So they are encrypted, with a key that all processes on the store share.
 */
export class Cursors {
  readonly #store: Pick<Store, "cursorKey">;
  #key: Promise<Buffer> | null = null;

  constructor(store: Pick<Store, "cursorKey">) {
    this.#store = store;
  }

  /** The cursor for a position in the store. */
  async encrypt(position: string): Promise<string> {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, await this.#keyOf(), nonce);
    const padded = position.padEnd(Math.ceil(position.length / BLOCK_BYTES) * BLOCK_BYTES);
    const sealed = Buffer.concat([cipher.update(padded, "utf8"), cipher.final()]);
    return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString("base64url");
  }

  /** The position of a cursor. Throws `InvalidOptionError` for one that `encrypt` did not create on this store. */
  async decrypt(cursor: string): Promise<string> {
    const bytes = Buffer.from(cursor, "base64url");
    // The decoder ignores characters after the last whole byte, so the cursor is encoded again and compared.
    if (bytes.length <= NONCE_BYTES + TAG_BYTES || bytes.toString("base64url") !== cursor) throw invalidCursor();
    const [nonce, sealed] = [bytes.subarray(0, NONCE_BYTES), bytes.subarray(NONCE_BYTES)];
    const decipher = createDecipheriv(CIPHER, await this.#keyOf(), nonce, { authTagLength: TAG_BYTES });
    decipher.setAuthTag(sealed.subarray(0, TAG_BYTES));
    try {
      return Buffer.concat([decipher.update(sealed.subarray(TAG_BYTES)), decipher.final()])
        .toString("utf8")
        .trimEnd();
    } catch {
      throw invalidCursor();
    }
  }

  /** Read on first use, and again if reading failed. */
  #keyOf(): Promise<Buffer> {
    this.#key ??= this.#store.cursorKey().then((text) => createHash("sha256").update(text).digest());
    this.#key.catch(() => (this.#key = null));
    return this.#key;
  }
}

function invalidCursor(): InvalidOptionError {
  return new InvalidOptionError("cursor", "is not a cursor of an earlier page; start again without one");
}
