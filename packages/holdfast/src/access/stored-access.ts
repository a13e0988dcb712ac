import type { TokenRole } from "./roles.js";

/** A change made through the API or a command. */
export interface AuditEntry {
  /** A UUIDv7. */
  id: string;
  /** Who made the change: `token:deploy`, `user:ada`, `cli:root@host`. */
  actor: string;
  /** The kind of change, such as `jobs.retry`. */
  action: string;
  /** The id of a job, the name of a schedule or queue, or a filter as JSON. */
  target: string | null;
  /** The number of changed records. */
  count: number;
  /** JSON. */
  detail: string | null;
  /**
   * How long the entry is kept at least. A store that deletes expired records by itself may do so after that. Null, and in all other
   * stores: only `purgeAudit` deletes it.
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

/** An API token. Only the hash of its secret is stored. */
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
/** `exists`: a token with this id exists. `full`: the maximum number of tokens exists. In both cases nothing was written. */
export type PutTokenResult = "put" | "exists" | "full";
