import { textOf, type Item } from "./attributes.js";
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

/** The jobs that were claimed here and not settled yet. Only a help: what is not known is read. */
export class HeldJobs {
  readonly #jobs = new Map<string, HeldJob>();

  claimed(id: string, fence: number, item: Item): void {
    if (this.#jobs.size >= MOST) this.#jobs.clear();
    const plain = ["input_at", "beside"].every((name) => item[name] === undefined);
    const scope = textOf(item, "scope");
    const key = scope === "live" || scope === "waiting" ? textOf(item, "unique") : null;
    const { listed, shard } = readItem(item);
    this.#jobs.set(id, { fence, listed, shard, plain, key, hiddenUntil: 0 });
  }

  of({ id, fence }: { id: string; fence: number }): HeldJob | undefined {
    const known = this.#jobs.get(id);
    return known?.fence === fence ? known : undefined;
  }

  over({ id }: { id: string }): void {
    this.#jobs.delete(id);
  }
}
