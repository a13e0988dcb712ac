import { LIMITS } from "../../defaults.js";
import { dateOf, instantMs } from "../../duration.js";
import { InvalidOptionError } from "../../errors.js";
import { newId, readId } from "../../job/id.js";
import { jsonBytes, NotJson, toJson } from "../../job/json.js";
import { storableString } from "../../storable-string.js";
import { readCount, readName, refuseUnknown } from "../../options.js";
import type { AuditEntry, AuditFilter, StoredAuditEntry } from "../../store.js";
import type { EngineContext } from "../context.js";
import { readable } from "./job-view.js";

/** An entry of the audit log, as people read it. */
export interface AuditRecord {
  id: string;
  /** When it was done, by the store's clock. */
  at: Date;
  /** Who did it: `token:deploy`, `user:ada`, `cli:root@host`. */
  actor: string;
  /** What was done: `jobs.retry`. */
  action: string;
  /** To what: the id of a job, the name of a schedule or queue, or a filter as JSON text. */
  target: string | null;
  /** How many it changed. */
  count: number;
  /** What else there is to know; `token` in it is the id of the token it was done with. */
  detail: unknown;
}

export interface AuditListOptions {
  actor?: string;
  action?: string;
  /** At this instant or later. */
  after?: Date | number | string;
  /** Before this instant. */
  before?: Date | number | string;
  /** Entries a page, 1 to 1000. Default 50. */
  limit?: number;
  /** Where the page before ended: its `cursor`. */
  cursor?: string | null;
}
const LIST_FIELDS: ReadonlySet<string> = new Set(["actor", "action", "after", "before", "limit", "cursor"]);

/** What somebody did, to be written down. */
export interface Deed {
  /** A UUIDv7 of its own, where writing it down may be repeated: it is then there once. */
  id?: string;
  actor: string;
  action: string;
  /** A filter is kept as JSON text. */
  target?: string | object | null;
  /** How many it changed. Default 1. */
  count?: number;
  /** Whatever JSON can carry. */
  detail?: object;
  /** The id of the token that it was done with, since several may have one name. Kept in the detail, however long that is. */
  token?: string;
}

/** Who changed what by API or command, and when. Reached as `hf.audit`. */
export class AuditLog {
  readonly #open: () => EngineContext;
  readonly #keepMs: number | null;

  /** @internal */
  constructor(open: () => EngineContext, keepMs: number | null) {
    this.#open = open;
    this.#keepMs = keepMs;
  }

  /**
   * Entries that match, newest first, a page at a time. With `actor` or `action` a page may be short, even empty, on a store
   * that reads so many entries and no more; go on until `cursor` is null.
   *
   * ```ts
   * const { entries, cursor } = await hf.audit.list({ actor: "token:deploy", after: "2026-05-01T00:00:00Z" });
   * ```
   */
  async list(options: AuditListOptions = {}): Promise<{ entries: AuditRecord[]; cursor: string | null }> {
    const { filter, limit, cursor } = readListOptions(options);
    const page = await this.#open().store.listAudit(filter, { limit, cursor });
    return { entries: page.entries.map(readEntry), cursor: page.cursor };
  }

  /** @internal Writes down what was done. Resolves once that is durable. */
  async record(...deeds: readonly Deed[]): Promise<void> {
    const { store, clock } = this.#open();
    const entries = deeds.map((deed) => entryOf(deed, clock.now(), this.#keepMs));
    for (let from = 0; from < entries.length; from += LIMITS.auditEntries) {
      await store.audit(entries.slice(from, from + LIMITS.auditEntries));
    }
  }
}

function readListOptions(options: AuditListOptions): { filter: AuditFilter; limit: number; cursor: string | null } {
  refuseUnknown(options, LIST_FIELDS, "list");
  const { actor, action, after, before, limit = 50, cursor = null } = options;
  if (cursor !== null && typeof cursor !== "string") {
    throw new InvalidOptionError("cursor", "is not a cursor that list gave");
  }
  const filter: AuditFilter = {};
  if (actor !== undefined) filter.actor = readName(actor, "actor", LIMITS.actorLength);
  if (action !== undefined) filter.action = readName(action, "action", LIMITS.actionLength);
  if (after !== undefined) filter.after = instantMs(after, "after");
  if (before !== undefined) filter.before = instantMs(before, "before");
  return { filter, limit: readCount(limit, "limit", 1, LIMITS.listPage), cursor };
}

/** What was done is done: whatever does not fit the log is cut, and is never a reason to leave it out. */
function entryOf(deed: Deed, now: number, keepMs: number | null): AuditEntry {
  const { target = null, count = 1, detail = {}, token } = deed;
  return {
    id: deed.id === undefined ? newId(now) : readId(deed.id),
    actor: storableString(deed.actor, LIMITS.actorLength),
    action: readName(deed.action, "action", LIMITS.actionLength),
    target:
      target === null
        ? null
        : storableString(typeof target === "string" ? target : jsonOf(target), LIMITS.targetLength),
    count: readCount(count, "count", 0, Number.MAX_SAFE_INTEGER),
    detail: detailText(detail, token === undefined ? {} : { token }),
    keepMs,
  };
}

function detailText(detail: object, more: object): string | null {
  if (Object.keys(detail).length + Object.keys(more).length === 0) return null;
  const json = jsonOf({ ...detail, ...more }, more);
  const bytes = jsonBytes(json);
  return bytes <= LIMITS.auditDetailBytes ? json : omitted(`${bytes} bytes of JSON`, more);
}

function jsonOf(value: unknown, more: object = {}): string {
  try {
    return toJson(value);
  } catch (error) {
    if (!(error instanceof NotJson)) throw error;
    return omitted(error.message, more);
  }
}

function omitted(what: string, more: object): string {
  return JSON.stringify({ omitted: what, ...more });
}

function readEntry({ at, detail, ...entry }: StoredAuditEntry): AuditRecord {
  return { ...entry, at: dateOf(at), detail: readable(detail) };
}
