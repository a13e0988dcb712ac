import type { State } from "../../../job/state.js";
import type { TransitionPage } from "../../../store.js";
import type { SharedConfig } from "../connection/config.js";
import type { Table } from "../connection/table.js";
import { follow } from "./following.js";
import { TransitionReader } from "./reader.js";
import { TransitionRecorder } from "./recorder.js";
import type { ChangedJob, TransitionLog } from "./transition-log.js";

interface Parts {
  config: SharedConfig;
  /** DynamoDB's time. */
  time: () => number;
  /** False under a test clock. */
  isLive: boolean;
  /** Aborted when the store closes. */
  closing: AbortSignal;
}

/** Transitions that the processes write to the table themselves, while jobs are followed. */
export class RecordedTransitions implements TransitionLog {
  readonly #table: Table;
  readonly #parts: Parts;
  readonly #recorder: TransitionRecorder;
  readonly #reader: TransitionReader;

  constructor(table: Table, parts: Parts) {
    this.#table = table;
    this.#parts = parts;
    this.#recorder = new TransitionRecorder(table, parts);
    this.#reader = new TransitionReader(table, parts);
  }

  add(job: ChangedJob, to: State, now: number): void {
    this.#recorder.add(job, to, now);
  }

  flush(): Promise<void> {
    return this.#recorder.flush();
  }

  stop(): Promise<void> {
    return this.#recorder.stop();
  }

  record(forMs: number): Promise<string> {
    return follow(this.#table, this.#parts, forMs);
  }

  page(cursor: string, limit: number): Promise<TransitionPage | null> {
    return this.#reader.page(cursor, limit);
  }

  purge(request: { before: number; limit: number }): Promise<number> {
    return this.#reader.purge(request);
  }
}
