import { LIMITS } from "../defaults.js";
import type { ErrorGroupRecord, HistoryMerge, HistoryRange, HistoryRecord, HistoryResolution } from "../store.js";

/** Error groups and history of the reference model: two maps. */
export class InsightModel {
  readonly #groups = new Map<string, ErrorGroupRecord>();
  readonly #records = new Map<string, HistoryRecord>();

  recordErrors(groups: readonly ErrorGroupRecord[]): void {
    for (const group of groups) {
      const known = this.#groups.get(group.fingerprint);
      if (known === undefined) {
        this.#groups.set(group.fingerprint, group);
        continue;
      }
      const { job, example } = group.lastAt >= known.lastAt ? group : known;
      this.#groups.set(group.fingerprint, {
        ...known,
        job,
        example,
        count: known.count + group.count,
        firstAt: Math.min(known.firstAt, group.firstAt),
        lastAt: Math.max(known.lastAt, group.lastAt),
      });
    }
  }

  errorGroups(limit: number): ErrorGroupRecord[] {
    return [...this.#groups.values()]
      .toSorted((a, b) => b.lastAt - a.lastAt || (a.fingerprint < b.fingerprint ? 1 : -1))
      .slice(0, Math.min(limit, LIMITS.errorGroups));
  }

  purgeErrorGroups(before: number): number {
    const old = [...this.#groups.values()].filter(({ lastAt }) => lastAt < before);
    for (const { fingerprint } of old) this.#groups.delete(fingerprint);
    return old.length;
  }

  putHistory(records: readonly HistoryRecord[]): void {
    for (const record of records) this.#records.set(keyOf(record), record);
  }

  history({ resolution, from, to }: Pick<HistoryRange, "resolution" | "from" | "to">): HistoryRecord[] {
    return [...this.#records.values()]
      .filter((record) => record.resolution === resolution && record.at >= from && record.at < to)
      .toSorted((a, b) => a.at - b.at || (a.writer < b.writer ? -1 : 1));
  }

  mergeHistory({ record, replaced }: HistoryMerge): boolean {
    const keys = replaced.map(({ writer }) => keyOf({ ...record, writer }));
    if (replaced.some(({ data }, nth) => this.#records.get(keys[nth] ?? "")?.data !== data)) return false;
    for (const key of keys) this.#records.delete(key);
    this.putHistory([record]);
    return true;
  }

  /** A purge with a limit deletes any of these. */
  purgeableHistory(resolution: HistoryResolution, before: number): HistoryRecord[] {
    return this.history({ resolution, from: 0, to: before });
  }

  deleteHistory(record: HistoryRecord): void {
    this.#records.delete(keyOf(record));
  }
}

function keyOf({ resolution, at, writer }: Pick<HistoryRecord, "resolution" | "at" | "writer">): string {
  return `${resolution} ${at} ${writer}`;
}
