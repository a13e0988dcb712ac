import type { ErrorGroupRecord, HistoryPage, HistoryRange, HistoryRecord, HistoryResolution, Store } from "../store.js";
import { must, same } from "./model-check.js";
import type { ErrorDraft, InsightCommand, RecordDraft } from "./model-insight-commands.js";
import { InsightModel } from "./model-insight.js";
import { idOf } from "./model-names.js";

// Small, so that several pages are read.
const PAGE = 3;
const MAX_GROUPS = 100;
const STEP_MS: Readonly<Record<HistoryResolution, number>> = { minute: 60_000, hour: 3_600_000 };

/** Runs commands on error groups and history on a store and on the model, and fails at the first difference. */
export class InsightComparison {
  readonly #model = new InsightModel();
  readonly #storeOf: (worker?: string) => Store;

  constructor(storeOf: (worker?: string) => Store) {
    this.#storeOf = storeOf;
  }

  async do(command: InsightCommand, now: number): Promise<void> {
    const model = this.#model;
    switch (command.do) {
      case "recordErrors": {
        const groups = command.errors.map((draft) => groupOf(draft, now));
        await this.#storeOf(command.worker).recordErrors(groups);
        model.recordErrors(groups);
        return this.#compareGroups();
      }
      case "purgeErrorGroups": {
        const before = now - command.olderThanMs;
        same(await this.#storeOf().purgeErrorGroups(before), model.purgeErrorGroups(before), "purgeErrorGroups");
        return this.#compareGroups();
      }
      case "putHistory": {
        const given = command.records.map((draft) => recordOf(draft, now));
        // A process never stores a record twice in one call, and the contract does not say which one would win.
        const named = new Map(given.map((record) => [`${record.resolution} ${record.at} ${record.writer}`, record]));
        const records = [...named.values()];
        await this.#storeOf(command.worker).putHistory(records);
        model.putHistory(records);
        return this.#compareHistory();
      }
      case "mergeHistory": {
        const at = timeOf(command, now);
        const { resolution, stale, worker } = command;
        const found = model.history({ resolution, from: at, to: at + 1 });
        if (found.length === 0) return;
        const replaced = found.map(({ writer, data }, nth) => ({ writer, data: stale && nth === 0 ? "{}" : data }));
        const merge = { record: { resolution, at, writer: "merged", data: JSON.stringify(replaced) }, replaced };
        const merged = await this.#storeOf(worker).mergeHistory(merge);
        same(merged, model.mergeHistory(merge), "the result of mergeHistory");
        return this.#compareHistory();
      }
      case "purgeHistory": {
        const { resolution, olderThanMs, limit } = command;
        const before = now - olderThanMs;
        const old = model.purgeableHistory(resolution, before);
        const count = await this.#storeOf().purgeHistory({ resolution, before, limit });
        same(count, Math.min(limit, old.length), "the result of purgeHistory");
        const kept = new Set((await allRecords(this.#storeOf(), resolution)).map((record) => JSON.stringify(record)));
        const gone = old.filter((record) => !kept.has(JSON.stringify(record)));
        must(gone.length === count, () => `purgeHistory deleted ${gone.length} records, and returned ${count}`);
        for (const record of gone) model.deleteHistory(record);
        return this.#compareHistory();
      }
    }
  }

  /** All groups and records, with another limit than after each command. */
  async check(): Promise<void> {
    await this.#compareGroups(2);
    await this.#compareHistory();
  }

  async #compareGroups(limit = MAX_GROUPS): Promise<void> {
    same(await this.#storeOf().errorGroups(limit), this.#model.errorGroups(limit), "the error groups");
  }

  async #compareHistory(): Promise<void> {
    for (const resolution of ["minute", "hour"] as const) {
      const expected = this.#model.history({ resolution, from: 0, to: Number.MAX_SAFE_INTEGER });
      same(await allRecords(this.#storeOf(), resolution), expected, `the history by ${resolution}`);
    }
  }
}

async function allRecords(store: Store, resolution: HistoryResolution): Promise<HistoryRecord[]> {
  const found: HistoryRecord[] = [];
  let after: HistoryRange["after"] = null;
  do {
    const page: HistoryPage = await store.history({ resolution, from: 0, to: LATEST, limit: PAGE, after });
    found.push(...page.records);
    after = page.next;
  } while (after !== null);
  return found;
}

// Sorts last on every store.
const LATEST = 999_999_999_999_999;

/** The fields of a group that do not change are the same for the same fingerprint. */
function groupOf({ group, count, agoMs }: ErrorDraft, now: number): ErrorGroupRecord {
  const lastAt = now - agoMs;
  return {
    fingerprint: group.padStart(16, "0"),
    type: group === "cc" ? null : "send",
    name: "Error",
    code: group === "bb" ? "E_TEST" : null,
    message: `${group} failed`,
    frame: null,
    count,
    firstAt: lastAt - (count > 1 ? 5 : 0),
    lastAt,
    // A repeated time must not decide between two jobs.
    job: idOf(lastAt % 1_000_000),
    example: `${group} failed at ${lastAt}`,
  };
}

function recordOf({ resolution, ago, writer, count }: RecordDraft, now: number): HistoryRecord {
  return { resolution, at: timeOf({ resolution, ago }, now), writer, data: JSON.stringify({ count }) };
}

function timeOf({ resolution, ago }: Pick<RecordDraft, "resolution" | "ago">, now: number): number {
  const step = STEP_MS[resolution];
  return Math.floor(now / step) * step - ago * step;
}
