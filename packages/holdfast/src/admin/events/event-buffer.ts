// However many viewers are behind, this much is kept, once for all of them.
const MAX_BYTES = 1_048_576;
// What one read returns at most, so that a viewer that stops reading holds no more than this in its socket.
const MAX_READ_BYTES = 65_536;

/** What a viewer reads next. `missed`: what came before it is no longer kept. */
export interface Read {
  bytes: Uint8Array;
  /** Where the read after this one begins. */
  next: number;
  missed: boolean;
}

/**
 * The latest messages of a feed. Viewers read them at their own pace, each from its own position: a message is kept once
 * for all viewers, and one that does not read costs nothing.
 */
export class EventBuffer {
  #messages: Uint8Array[] = [];
  #bytes = 0;
  /** The position of the oldest message that is kept. */
  #first = 0;

  /** Where the next message will be. */
  get end(): number {
    return this.#first + this.#messages.length;
  }

  push(message: Uint8Array): void {
    this.#messages.push(message);
    this.#bytes += message.byteLength;
    // The newest is kept whatever its length, or no viewer would ever read it.
    while (this.#bytes > MAX_BYTES && this.#messages.length > 1) this.#dropOldest();
  }

  /** Null: there is nothing new from this position on. */
  read(from: number): Read | null {
    const position = Math.max(from, this.#first);
    const missed = from < this.#first;
    const first = this.#messages[position - this.#first];
    if (first === undefined) return missed ? { bytes: new Uint8Array(), next: position, missed } : null;
    const some = [first];
    let bytes = first.byteLength;
    for (let next = position + 1; next < this.end; next++) {
      const message = this.#messages[next - this.#first] as Uint8Array;
      if (bytes + message.byteLength > MAX_READ_BYTES) break;
      some.push(message);
      bytes += message.byteLength;
    }
    // A viewer that keeps up gets the message itself: no copy for each of them.
    return { bytes: some.length === 1 ? first : Buffer.concat(some), next: position + some.length, missed };
  }

  /** Forgets everything. A viewer from before this has missed something; one that begins now has not. */
  interrupt(): void {
    this.#first = this.end + 1;
    this.#messages = [];
    this.#bytes = 0;
  }

  #dropOldest(): void {
    const oldest = this.#messages.shift();
    this.#bytes -= oldest?.byteLength ?? 0;
    this.#first++;
  }
}
