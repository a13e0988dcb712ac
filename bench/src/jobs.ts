import { job, type JobType } from "holdfast";

/** The type that trials run, and one that stands in its way. */
export const NOOP = "bench.noop";
export const OTHER = "bench.other";

export interface Payload {
  to: string;
  text?: string;
  /** When it was enqueued, in nanoseconds of the clock that all processes of a machine share. */
  sentAt?: string;
}

/** Checks nothing: what a schema library costs is not Holdfast's figure. */
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

/** A job that does nothing but tell that it ran. Asynchronous, as handlers mostly are. */
export function noop(ran: (input: Payload) => void): JobType<Payload, void> {
  return job({ type: NOOP, input: unchecked, run: async ({ input }) => ran(input) });
}

/** About thirty bytes of JSON, or as many as asked for. */
export function payload(bytes: number = 0): Payload {
  const small: Payload = { to: "ada@example.com" };
  const missing = bytes - JSON.stringify({ ...small, text: "" }).length;
  return missing > 0 ? { ...small, text: "x".repeat(missing) } : small;
}

let made = 0;

/** A UUIDv7-like id: ordered by time, like those that Holdfast makes, so that the baseline's index fills in order too. */
export function orderedId(nowMs: number): string {
  const count = made++;
  const time = nowMs.toString(16).padStart(12, "0");
  const low = (count & 0xfff).toString(16).padStart(3, "0");
  const high = count.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${low}-8000-${high}`;
}
