/** What two clocks may drift apart, as a share of the time that passes. */
const DRIFT = 0.0002;
/** By how much our clock must have been moved to be asked about. */
const MOVED_MS = 100;

/**
 * DynamoDB's clock, as far as its answers tell: they carry the time, cut to the second. Each bounds by how much our clock
 * is off; together they bound it closely. As long as our clock is within the bounds it is believed.
 */
export class ServerTime {
  #least = Number.NEGATIVE_INFINITY;
  #most = Number.POSITIVE_INFINITY;
  #heardAt = 0;
  /** Our clock against one that nobody sets. */
  #started: number | null = null;

  /** An answer with the time `date`, asked for and received at these times of our clock. */
  heard(date: string | undefined, sentAt: number, receivedAt: number): void {
    this.#started = started();
    const at = Date.parse(date ?? "");
    if (Number.isNaN(at)) return;
    const [least, most] = [at - receivedAt, at + 1_000 - sentAt];
    const drift = Math.abs(receivedAt - this.#heardAt) * DRIFT;
    this.#heardAt = receivedAt;
    this.#least = Math.max(least, this.#least - drift);
    this.#most = Math.min(most, this.#most + drift);
    // A clock was set, theirs or ours: what was known before is no longer so.
    if (this.#least > this.#most) [this.#least, this.#most] = [least, most];
  }

  /** No answer has come yet, or our clock was set since: whoever judges a lease by it must ask first. */
  get isUnsure(): boolean {
    return this.#started === null || Math.abs(started() - this.#started) > MOVED_MS;
  }

  /** What to add to our clock. */
  get offset(): number {
    if (this.#least > 0) return this.#least;
    return this.#most < 0 ? this.#most : 0;
  }
}

function started(): number {
  return Date.now() - performance.now();
}
