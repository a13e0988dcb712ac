/** A request for a password reset, to be counted. */
export interface ResetRequest {
  /** A hash of the address. */
  readonly address: string;
  readonly now: Date;
  /** At most this many requests for an address in `perMs`. */
  readonly limit: number;
  readonly perMs: number;
  /** The user with this address; a new id if it has no account. */
  readonly user: string;
  /** The job that `enqueue` enqueues. */
  readonly jobId: string;
  /** When the request is no longer needed. */
  readonly expiresAt: Date;
  /** False: the address has no account. Everything is done as for one that has, but what `enqueue` did is undone. */
  readonly keep: boolean;
}

/** A token, of which only the hash is stored. */
export interface ResetToken {
  readonly hash: string;
  readonly user: string;
  readonly now: Date;
  readonly expiresAt: Date;
}

/** Where requests and tokens are stored. `passwordReset({ db })` uses tables on SQLite and PostgreSQL. */
export interface ResetRecords {
  /** Creates the tables, if there are none. */
  install(): Promise<void>;
  /**
   * Counts the request, stores its job as the newest of the user, and calls `enqueue` with the open transaction. Returns null, or, if the
   * limit is reached, when the next request is allowed; then nothing is enqueued. Without transactions: call `enqueue` with undefined,
   * and only if `keep` is true.
   */
  request(given: ResetRequest, enqueue: (tx: unknown) => Promise<unknown>): Promise<Date | null>;
  /** The job of the user's newest request; null if there is none. */
  newest(user: string): Promise<string | null>;
  create(token: ResetToken): Promise<void>;
  /** Deletes all tokens of the user who has this one, and returns the user; null if the token is unknown or has expired. */
  consume(hash: string, now: Date): Promise<string | null>;
  /** The same in the caller's transaction. On SQLite it returns no promise. */
  consumeIn(tx: unknown, hash: string, now: Date): string | null | Promise<string | null>;
  /** Deletes all tokens of a user. */
  revoke(user: string): Promise<void>;
  /** The same in the caller's transaction. On SQLite it returns no promise. */
  revokeIn(tx: unknown, user: string): void | Promise<void>;
}
