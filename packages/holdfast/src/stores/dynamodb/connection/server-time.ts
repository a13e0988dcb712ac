/** How far two clocks may drift apart, relative to the elapsed time. */
const DRIFT = 0.0002;
/** A larger change of the local clock means that it was set, and the offset must be measured again. */
const CLOCK_SET_MS = 100;

/**
 * The offset between the local clock and DynamoDB's clock. Every response has a `Date` header, truncated to the second,
 * which bounds the offset. Several responses together bound it closely. While an offset of 0 is within the bounds, the
 * local clock is used unchanged.
 */
export class ServerTime {
  #min = Number.NEGATIVE_INFINITY;
  #max = Number.POSITIVE_INFINITY;
  #observedAt = 0;
  /** The start of the process by the local clock. It changes when that clock is set. */
  #started: number | null = null;

  /** Uses the `Date` header of a response. `sentAt` and `receivedAt` are times of the local clock. */
  observe(date: string | undefined, sentAt: number, receivedAt: number): void {
    this.#started = started();
    const at = Date.parse(date ?? "");
    if (Number.isNaN(at)) return;
    const [min, max] = [at - receivedAt, at + 1_000 - sentAt];
    const drift = Math.abs(receivedAt - this.#observedAt) * DRIFT;
    this.#observedAt = receivedAt;
    this.#min = Math.max(min, this.#min - drift);
    this.#max = Math.min(max, this.#max + drift);
    // The bounds contradict each other, so one of the clocks was set: start again with this response.
    if (this.#min > this.#max) [this.#min, this.#max] = [min, max];
  }

  /**
   * No response has arrived yet, or the local clock was set since. Leases must not be judged by it before the next
   * response.
   */
  get isUnknown(): boolean {
    return this.#started === null || Math.abs(started() - this.#started) > CLOCK_SET_MS;
  }

  /** Milliseconds to add to the local clock. */
  get offset(): number {
    if (this.#min > 0) return this.#min;
    return this.#max < 0 ? this.#max : 0;
  }
}

function started(): number {
  return Date.now() - performance.now();
}
