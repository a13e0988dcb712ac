import { LIMITS } from "../../defaults.js";
import { dateOf, instantMs } from "../../duration.js";
import { InvalidOptionError } from "../../errors.js";
import { newId, readId } from "../../job/uuid.js";
import { jsonBytes, NotJson, toJson } from "../../job/json.js";
import { storableString } from "../../storable-string.js";
import { optionKeys, readCount, readName, refuseUnknown } from "../../options.js";
import type { AuditEntry, AuditFilter, StoredAuditEntry } from "../../store.js";
import type { EngineContext } from "../context.js";
import { parseStored } from "./job-view.js";

/** An entry of the audit log. */
export interface AuditRecord {
  id: string;
  /** When the change was made, by the store's clock. */
  at: Date;
  /** Who made the change: `token:deploy`, `user:ada`, `cli:root@host`. */
  actor: string;
  /** What was called: `jobs.retry`. */
  action: string;
  /** What changed: a job id, the name of a schedule or queue, or a filter as JSON. */
  target: string | null;
  /** How many jobs or schedules changed. */
  count: number;
  /** Further details; `token` in it is the id of the API token that was used. */
  detail: unknown;
}

export interface AuditListOptions {
  actor?: string;
  action?: string;
  /** At this instant or later. */
  after?: Date | number | string;
  /** Before this instant. */
  before?: Date | number | string;
  /** Entries per page, 1 to 1000. Default 50. */
  limit?: number;
  /** The `cursor` of the previous page. */
  cursor?: string | null;
}
const LIST_KEYS: ReadonlySet<string> = optionKeys<AuditListOptions>({
  actor: true,
  action: true,
  after: true,
  before: true,
  limit: true,
  cursor: true,
});

/** An audit entry to be recorded. */
export interface AuditEntryDraft {
  /** A UUIDv7, if the recording may be repeated: the entry is then stored once. */
  id?: string;
  actor: string;
  action: string;
  /** A filter is stored as JSON. */
  target?: string | object | null;
  /** How many jobs or schedules changed. Default 1. */
  count?: number;
  /** Any JSON object. */
  detail?: object;
  /** The id of the API token that was used: several tokens can have one name. Stored in the detail, even if that is truncated. */
  token?: string;
}

/** Who changed what through the API or the CLI, and when: `hf.audit`. */
export interface AuditLog {
  /**
   * Entries that match, newest first, one page at a time. With `actor` or `action`, a page can be short or even empty on a store
   * that reads a limited number of entries per call; continue until `cursor` is null.
   *
   * ```ts
   * const { entries, cursor } = await hf.audit.list({ actor: "token:deploy", after: "2026-05-01T00:00:00Z" });
   * ```
   */
  list(options?: AuditListOptions): Promise<{ entries: AuditRecord[]; cursor: string | null }>;
}

export function newAuditLog(requireOpen: () => EngineContext): AuditLog {
  return {
    async list(options = {}) {
      const { filter, limit, cursor } = readListOptions(options);
      const page = await requireOpen().store.listAudit(filter, { limit, cursor });
      return { entries: page.entries.map(readEntry), cursor: page.cursor };
    },
  };
}

/** Records audit entries. Resolves once they are durable. For the admin API and the CLI. */
export async function recordAudit(
  { store, clock, auditRetentionMs }: EngineContext,
  ...drafts: readonly AuditEntryDraft[]
): Promise<void> {
  const entries = drafts.map((draft) => entryOf(draft, clock.now(), auditRetentionMs));
  for (let from = 0; from < entries.length; from += LIMITS.auditEntries) {
    await store.audit(entries.slice(from, from + LIMITS.auditEntries));
  }
}

function readListOptions(options: AuditListOptions): { filter: AuditFilter; limit: number; cursor: string | null } {
  refuseUnknown(options, LIST_KEYS, "list");
  const { actor, action, after, before, limit = 50, cursor = null } = options;
  if (cursor !== null && typeof cursor !== "string") {
    throw new InvalidOptionError("cursor", "is not a cursor of an earlier page; start again without one");
  }
  const filter: AuditFilter = {};
  if (actor !== undefined) filter.actor = readName(actor, "actor", LIMITS.actorLength);
  if (action !== undefined) filter.action = readName(action, "action", LIMITS.actionLength);
  if (after !== undefined) filter.after = instantMs(after, "after");
  if (before !== undefined) filter.before = instantMs(before, "before");
  return { filter, limit: readCount(limit, "limit", 1, LIMITS.listPage), cursor };
}

/** The change has been made, so it must be recorded: values that are too long are truncated, never refused. */
function entryOf(draft: AuditEntryDraft, now: number, keepMs: number | null): AuditEntry {
  const { target = null, count = 1, detail = {}, token } = draft;
  return {
    id: draft.id === undefined ? newId(now) : readId(draft.id),
    actor: storableString(draft.actor, LIMITS.actorLength),
    action: readName(draft.action, "action", LIMITS.actionLength),
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
  return { ...entry, at: dateOf(at), detail: parseStored(detail) };
}
