import type { Item } from "../connection/attributes.js";
import { readItem } from "./items.js";

/** What is worth knowing of a job that was claimed here, so that it need not be read again. */
export interface HeldJob {
  fence: number;
  listed: string;
  shard: number;
  /** It has nothing beside it: DynamoDB can clear it away by itself. */
  plain: boolean;
  /** The unique key that it holds no longer than it lives. */
  key: string | null;
  /** Until when its entry in the index is out of sight. */
  hiddenUntil: number;
}

const MOST = 100_000;
const MOST_PASSED_BY = 10_000;

/**
 * The jobs that were claimed here and not settled yet, and entries of the index that are out of date. Only a help: what is
 * not known is read, or tried.
 */
export class HeldJobs {
  readonly #jobs = new Map<string, HeldJob>();
  readonly #passedBy = new Map<string, { spot: string; until: number }>();

  claimed(id: string, fence: number, item: Item): void {
    if (this.#jobs.size >= MOST) this.#jobs.clear();
    const plain = ["input_at", "beside"].every((name) => item[name] === undefined);
    const { listed, shard, scope, key: uniqueKey } = readItem(item);
    const key = scope === "live" || scope === "waiting" ? uniqueKey : null;
    this.#jobs.set(id, { fence, listed, shard, plain, key, hiddenUntil: 0 });
  }

  of({ id, fence }: { id: string; fence: number }): HeldJob | undefined {
    const known = this.#jobs.get(id);
    return known?.fence === fence ? known : undefined;
  }

  over({ id }: { id: string }): void {
    this.#jobs.delete(id);
  }

  /** The job is not to be had before then, as long as its entry stands where it does. */
  passBy(id: string, spot: string, until: number): void {
    this.#passedBy.delete(id);
    const [oldest] = this.#passedBy.size >= MOST_PASSED_BY ? this.#passedBy.keys() : [];
    if (oldest !== undefined) this.#passedBy.delete(oldest);
    this.#passedBy.set(id, { spot, until });
  }

  passedByUntil(id: string, spot: string): number {
    const known = this.#passedBy.get(id);
    return known?.spot === spot ? known.until : 0;
  }

  /** The job may be had again, and its entry stand where it stood before. */
  waits({ id }: { id: string }): void {
    this.#passedBy.delete(id);
  }
}
