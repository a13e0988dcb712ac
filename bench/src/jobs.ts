import { job, type JobType } from "holdfast";

/** The job type that trials run, and another one that they must skip. */
export const NOOP = "bench.noop";
export const OTHER = "bench.other";

export interface Payload {
  to: string;
  text?: string;
  /** The time of the enqueue, in nanoseconds of the monotonic clock that all processes share. */
  sentAt?: string;
}

/** Validates nothing, so that the cost of a schema library is not measured. */
interface Unchecked {
  "~standard": {
    version: 1;
    vendor: string;
    validate(value: unknown): { value: Payload };
    types?: { input: Payload; output: Payload };
  };
}
const unchecked: Unchecked = {
  "~standard": { version: 1, vendor: "holdfast-bench", validate: (value) => ({ value: value as Payload }) },
};

/** A job that only reports that it ran. Asynchronous, like most handlers. */
export function noop(ran: (input: Payload) => void | Promise<void>): JobType<Payload, void> {
  return job({ type: NOOP, input: unchecked, run: async ({ input }) => ran(input) });
}

/** About thirty bytes of JSON, or the given size. */
export function payload(bytes: number = 0): Payload {
  const small: Payload = { to: "ada@example.com" };
  const missing = bytes - JSON.stringify({ ...small, text: "" }).length;
  return missing > 0 ? { ...small, text: "x".repeat(missing) } : small;
}

let made = 0;

/** An id like UUIDv7: ordered by time like Holdfast's ids, so that the index of the baseline also fills in order. */
export function orderedId(nowMs: number): string {
  const count = made++;
  const time = nowMs.toString(16).padStart(12, "0");
  const low = (count & 0xfff).toString(16).padStart(3, "0");
  const high = count.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${low}-8000-${high}`;
}
