import type { Telemetry } from "holdfast";

export const raise = (): never => {
  throw new Error("in telemetry");
};

/** Telemetry that throws, by the place where it throws. */
export const BROKEN: Record<string, Telemetry> = {
  "at the begin": { enqueue: raise, run: raise, attach: raise },
  "at the end": {
    enqueue: () => ({ carrier: null, end: raise }),
    run: () => ({ inside: (handler) => handler(), end: raise }),
    attach: () => raise,
  },
  "around the handler": {
    enqueue: () => ({ carrier: null, end: () => {} }),
    run: () => ({ inside: raise, end: () => {} }),
  },
};
