import type { TokenRole } from "./roles.js";

/** What somebody changed by API or command. */
export interface AuditEntry {
  /** A UUIDv7. */
  id: string;
  /** Who it was: `token:deploy`, `user:ada`, `cli:root@host`. */
  actor: string;
  /** What was done: `jobs.retry`. */
  action: string;
  /** To what: the id of a job, the name of a schedule or queue, or a filter as JSON text. */
  target: string | null;
  /** How many it changed. */
  count: number;
  /** JSON text. */
  detail: string | null;
  /**
   * How long it is kept at least. A store that clears away by itself does so after that; null, and on other stores,
   * `purgeAudit` does.
   */
  keepMs: number | null;
}
export interface StoredAuditEntry extends Omit<AuditEntry, "keepMs"> {
  /** The store's time. */
  at: number;
}
export interface AuditFilter {
  actor?: string | undefined;
  action?: string | undefined;
  /** At this time or later. */
  after?: number | undefined;
  /** Before this time. */
  before?: number | undefined;
}
export interface AuditPage {
  entries: StoredAuditEntry[];
  cursor: string | null;
}

/** A token of the API. Of its secret only the hash is known. */
export interface TokenRecord {
  id: string;
  name: string;
  /** SHA-256 of the secret, in hex. */
  hash: string;
  role: TokenRole;
  /** Whose jobs it sees, for the role `user`; null for the others. */
  user: string | null;
  createdAt: number;
  expiresAt: number | null;
}
/** `exists`: there is a token with this id. `full`: there are as many as may be. With both, nothing was written. */
export type PutTokenResult = "put" | "exists" | "full";
