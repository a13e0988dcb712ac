/** `minute`: the counts of one minute. `hour`: of one hour. */
export type HistoryResolution = "minute" | "hour";

/** What one writer counted in a minute or an hour. Stores do not interpret `data`. */
export interface HistoryRecord {
  resolution: HistoryResolution;
  /** When the minute or hour began. */
  at: number;
  /** The process that counted it, or a fixed name for merged records. At most 100 letters, digits, `_` and `-`. */
  writer: string;
  /** JSON, at most `LIMITS.historyBytes`. */
  data: string;
}

/** Replaces the records of some writers of a minute or hour by one record. */
export interface HistoryMerge {
  record: HistoryRecord;
  /** The records that it replaces, as they were read. */
  replaced: readonly { writer: string; data: string }[];
}

export interface HistoryRange {
  resolution: HistoryResolution;
  /** Records with `from <= at < to`, ordered by `at` and then by the code points of `writer`. */
  from: number;
  to: number;
  limit: number;
  /** Null for the first page. */
  after: HistoryPosition | null;
}

/** After a record. */
export interface HistoryPosition {
  at: number;
  writer: string;
}

export interface HistoryPage {
  records: HistoryRecord[];
  /** Where the next page begins; null at the end of the range. */
  next: HistoryPosition | null;
}
