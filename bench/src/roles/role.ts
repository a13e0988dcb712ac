/** The connection of a trial process to its parent. */
export interface Stage {
  /** Reports that everything is open, and waits for the start signal. */
  ready(): Promise<void>;
  progress(value: number): void;
  /** Resolves when the parent requests the end of the role. */
  stopped: Promise<void>;
}

/** A role that runs in a separate process. Order and result must be structured-cloneable. */
export type Role<Order, Result> = (order: Order, stage: Stage) => Promise<Result>;

export type ToRole = { kind: "order"; role: string; order: unknown } | { kind: "go" } | { kind: "stop" };

export type FromRole =
  | { kind: "ready" }
  | { kind: "progress"; value: number }
  | { kind: "result"; result: unknown }
  | { kind: "error"; error: string };
