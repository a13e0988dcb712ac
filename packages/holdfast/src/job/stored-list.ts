import type { State } from "./state.js";
import type { StoredJob } from "./stored-job.js";

export interface JobFilter {
  /** At most `LIMITS.listIds`. */
  ids?: readonly string[] | undefined;
  states?: readonly State[] | undefined;
  types?: readonly string[] | undefined;
  queues?: readonly string[] | undefined;
  user?: string | undefined;
  tag?: string | undefined;
  /** Jobs created by this schedule. */
  schedule?: string | undefined;
  /** Jobs enqueued by the handler of this job. */
  parent?: string | undefined;
  priority?: number | undefined;
  /** Jobs whose current error is in this group. */
  fingerprint?: string | undefined;
  createdAfter?: number | undefined;
  createdBefore?: number | undefined;
}
export interface PageRequest {
  /** The maximum number of jobs. */
  limit: number;
  /** Where the previous page ended; null for the first page. */
  cursor: string | null;
  /** False: jobs are returned with the input `null` and without output, and large payloads are not read. Default true. */
  payloads?: boolean | undefined;
  /**
   * The maximum total size of the inputs and outputs that are read, in bytes; the page ends before the job that would exceed it. The
   * first job is listed whatever its size. Default: no limit.
   */
  bytes?: number | undefined;
  /** Default `newest`. A cursor belongs to one order. */
  order?: "newest" | "oldest" | undefined;
  /**
   * True: the jobs may come in any order, if that limits the work of the call. A metered store then takes at most ten requests.
   * Over all pages, a job that matches all along is found once, or twice if it changes meanwhile. A job may be missed only if
   * it was changed to be due earlier, or to another queue or priority. Jobs enqueued meanwhile may be found. A cursor belongs to
   * lists with the same value. Default false.
   */
  anyOrder?: boolean | undefined;
}
export interface JobPage {
  jobs: StoredJob[];
  /** For each job: where the list continues after it, like `cursor`. */
  cursors: string[];
  /** Where the next page begins: at most 200 letters, digits, `_` and `-`. Null at the end of the list. */
  cursor: string | null;
}

/** `passed`: how many jobs were skipped. `cursor`: where the next page begins; null at the end of the list. */
export interface Skipped {
  passed: number;
  cursor: string | null;
}
