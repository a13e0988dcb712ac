import type * as fastCheck from "fast-check";
import type { Arbitrary } from "fast-check";
import type { HistoryResolution } from "../store.js";

/** Commands on error groups and history, as plain data. */
export type InsightCommand =
  | { do: "recordErrors"; errors: ErrorDraft[]; worker: string }
  | { do: "putHistory"; records: RecordDraft[]; worker: string }
  /** `stale`: one of the records has changed since it was read. */
  | { do: "mergeHistory"; resolution: HistoryResolution; ago: number; stale: boolean; worker: string }
  | { do: "purgeErrorGroups"; olderThanMs: number }
  | { do: "purgeHistory"; resolution: HistoryResolution; olderThanMs: number; limit: number };

export interface ErrorDraft {
  group: string;
  count: number;
  /** How long ago the last of them occurred. */
  agoMs: number;
}
export interface RecordDraft {
  resolution: HistoryResolution;
  /** How many minutes or hours ago. */
  ago: number;
  writer: string;
  count: number;
}

/** The commands on error groups and history, with their weights. */
export function insightCommands(
  fc: typeof fastCheck,
  worker: Arbitrary<string>,
): { weight: number; arbitrary: Arbitrary<InsightCommand> }[] {
  const resolution = fc.constantFrom<HistoryResolution[]>("minute", "minute", "hour");
  const ago = fc.nat(2);
  const error = fc.record<ErrorDraft>({
    group: fc.constantFrom("aa", "bb", "cc"),
    count: fc.constantFrom(1, 2, 1_000_000),
    agoMs: fc.constantFrom(0, 1, 10_000),
  });
  const record = fc.record<RecordDraft>({
    resolution,
    ago,
    writer: fc.constantFrom("p1", "p2", "P2", "merged"),
    count: fc.nat(99),
  });
  const olderThanMs = fc.constantFrom(0, 60_000, 3_600_000);
  const some = <Item>(item: Arbitrary<Item>): Arbitrary<Item[]> => fc.array(item, { minLength: 1, maxLength: 4 });
  return [
    { weight: 1, arbitrary: fc.record({ do: fc.constant("recordErrors"), errors: some(error), worker }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("putHistory"), records: some(record), worker }) },
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constant("mergeHistory"), resolution, ago, stale: fc.boolean(), worker }),
    },
    {
      weight: 1,
      arbitrary: fc.oneof(
        fc.record({ do: fc.constant("purgeErrorGroups" as const), olderThanMs }),
        fc.record({
          do: fc.constant("purgeHistory" as const),
          resolution,
          olderThanMs,
          limit: fc.constantFrom(100, 2),
        }),
      ),
    },
  ];
}
