import type { JobSettings } from "../../../store.js";
import type { Item } from "../connection/attributes.js";
import { isAwaited } from "../steps/awaiters.js";
import { readItem } from "./items.js";

/** What a lease operation needs to know about a job that this process claimed, so that it need not read the job. */
export interface CachedLease {
  fence: number;
  listed: string;
  shard: number;
  /** It has other items. Without them, DynamoDB's time to live can delete the whole job. */
  hasDetails: boolean;
  /** A step of another job waits for its end. */
  isAwaited: boolean;
  /** The unique key, if the job's end frees it. */
  key: string | null;
  settings: JobSettings | null;
  /** The due time of its index entry. Until then claims do not read the entry. */
  indexedUntil: number;
}

const MAX_LEASES = 100_000;
const MAX_SKIPPED = 10_000;

/**
 * Jobs that this process has claimed and not yet settled, and index entries that are known to be out of date. Only a
 * cache: without an entry, the job is read or the claim is tried.
 *
 * Lagging index: a global secondary index shows a write some time after the table, usually milliseconds, sometimes
 * seconds. Without the skip list, a claim would try the process's own jobs again and pay a failed write for each.
 */
export class LeaseCache {
  readonly #jobs = new Map<string, CachedLease>();
  readonly #skipped = new Map<string, { position: string; until: number }>();

  add(id: string, fence: number, item: Item): void {
    if (this.#jobs.size >= MAX_LEASES) this.#jobs.clear();
    const hasDetails = ["input_at", "beside"].some((name) => item[name] !== undefined);
    const { listed, shard, scope, key: uniqueKey, settings } = readItem(item);
    const key = scope === "live" || scope === "waiting" ? uniqueKey : null;
    this.#jobs.set(id, {
      fence,
      listed,
      shard,
      hasDetails,
      isAwaited: isAwaited(item),
      key,
      settings,
      indexedUntil: 0,
    });
  }

  get({ id, fence }: { id: string; fence: number }): CachedLease | undefined {
    const known = this.#jobs.get(id);
    return known?.fence === fence ? known : undefined;
  }

  delete({ id }: { id: string }): void {
    this.#jobs.delete(id);
  }

  /** The job cannot be claimed before `until`, as long as its index entry is at this position. */
  skip(id: string, position: string, until: number): void {
    this.#skipped.delete(id);
    const [oldest] = this.#skipped.size >= MAX_SKIPPED ? this.#skipped.keys() : [];
    if (oldest !== undefined) this.#skipped.delete(oldest);
    this.#skipped.set(id, { position, until });
  }

  skippedUntil(id: string, position: string): number {
    const known = this.#skipped.get(id);
    return known?.position === position ? known.until : 0;
  }

  /** The job waits again, and its index entry may be at the same position as before. */
  unskip({ id }: { id: string }): void {
    this.#skipped.delete(id);
  }
}
