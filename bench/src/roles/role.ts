/** What a process of a trial shares with the process that started it. */
export interface Stage {
  /** Tells that everything is open, and waits for the word to begin. */
  ready(): Promise<void>;
  progress(value: number): void;
  /** Resolves when the other side wants the role to end. */
  stopped: Promise<void>;
}

/** A part played in a process of its own. Order and result must survive a structured clone. */
export type Role<Order, Result> = (order: Order, stage: Stage) => Promise<Result>;

export type ToRole = { kind: "order"; role: string; order: unknown } | { kind: "go" } | { kind: "stop" };

export type FromRole =
  | { kind: "ready" }
  | { kind: "progress"; value: number }
  | { kind: "result"; result: unknown }
  | { kind: "error"; error: string };
