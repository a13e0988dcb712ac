// Limit for all clients together, however many are behind.
const MAX_BYTES = 1_048_576;
// Limit per read, so that a client that stops reading has no more than this in its socket buffer.
const MAX_READ_BYTES = 65_536;

/** `missed`: older messages were dropped before this client read them. */
export interface ReadResult {
  bytes: Uint8Array;
  /** The position of the next read. */
  next: number;
  missed: boolean;
}

/**
 * The latest messages of the event feed. Each message is stored once. Clients read at their own pace, each from its own position,
 * so a client that does not read costs nothing.
 */
export class EventBuffer {
  #messages: Uint8Array[] = [];
  #bytes = 0;
  /** The position of the oldest message in the buffer. */
  #first = 0;

  /** The position of the next message to be pushed. */
  get end(): number {
    return this.#first + this.#messages.length;
  }

  push(message: Uint8Array): void {
    this.#messages.push(message);
    this.#bytes += message.byteLength;
    // The newest message always stays, however long, or no client would ever read it.
    while (this.#bytes > MAX_BYTES && this.#messages.length > 1) this.#dropOldest();
  }

  /** Null: no messages at or after this position. */
  read(from: number): ReadResult | null {
    const position = Math.max(from, this.#first);
    const missed = from < this.#first;
    const first = this.#messages[position - this.#first];
    if (first === undefined) return missed ? { bytes: new Uint8Array(), next: position, missed } : null;
    const batch = [first];
    let bytes = first.byteLength;
    for (let next = position + 1; next < this.end; next++) {
      const message = this.#messages[next - this.#first] as Uint8Array;
      if (bytes + message.byteLength > MAX_READ_BYTES) break;
      batch.push(message);
      bytes += message.byteLength;
    }
    // Clients that keep up share the message itself, without a copy for each.
    return { bytes: batch.length === 1 ? first : Buffer.concat(batch), next: position + batch.length, missed };
  }

  /** Drops everything. Existing clients have missed messages; clients that start now have not. */
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
