/** A mail that some of its recipients have, while the server deferred others. */
export interface PartlySent {
  readonly accepted: readonly string[];
  readonly refused: readonly string[];
  readonly deferred: readonly string[];
}

const MAX = 1_000;

/**
 * Mails that must be sent again to a part of their recipients. Known to this process only: in another one, an attempt sends the mail to all
 * of them.
 */
export class PartlySentMails {
  readonly #mails = new Map<string, PartlySent>();

  get(key: string): PartlySent | undefined {
    return this.#mails.get(key);
  }

  set(key: string, mail: PartlySent): void {
    this.#mails.delete(key);
    this.#mails.set(key, mail);
    const [oldest] = this.#mails.keys();
    if (this.#mails.size > MAX && oldest !== undefined) this.#mails.delete(oldest);
  }

  delete(key: string): void {
    this.#mails.delete(key);
  }
}
