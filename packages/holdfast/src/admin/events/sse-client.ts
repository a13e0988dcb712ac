import type { EventBuffer } from "./event-buffer.js";

const ENCODER = new TextEncoder();
const GREETING = ENCODER.encode("retry: 2000\n\n");
/** Sent when events were dropped: the reader must reload what it shows. */
const MISSED = ENCODER.encode("event: missed\ndata: {}\n\n");

/** One open event stream. */
export interface SseClient {
  /** The body of the response. */
  readonly body: ReadableStream<Uint8Array>;
  /** Sends new events. Only while the client waits for them. */
  deliver(): void;
  end(): void;
}

export interface SseClientHooks {
  /** Called when the reader requests data. `waits`: there is none yet; call `deliver` when there is. */
  onPull: (client: SseClient, waits: boolean) => void;
  /** Called once, when the stream has ended. */
  onEnd: (client: SseClient) => void;
}

/**
 * A stream that reads from the buffer only when its reader requests data. Nothing is queued per client, so a client that does not
 * read costs nothing. `first`: what it receives at once.
 */
export function newSseClient(
  buffer: EventBuffer,
  first: Uint8Array | null,
  { onPull, onEnd }: SseClientHooks,
): SseClient {
  let position = buffer.end;
  let hasEnded = false;
  let greeted = false;
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;

  const next = (): Uint8Array | null => {
    if (!greeted) {
      greeted = true;
      return first === null ? GREETING : Buffer.concat([GREETING, first]);
    }
    const read = buffer.read(position);
    if (read === null) return null;
    position = read.next;
    return read.missed ? Buffer.concat([MISSED, read.bytes]) : read.bytes;
  };
  const deliver = (): boolean => {
    const bytes = hasEnded ? null : next();
    if (bytes !== null) controller?.enqueue(bytes);
    return bytes !== null;
  };
  const end = (): void => {
    if (hasEnded) return;
    hasEnded = true;
    onEnd(client);
    try {
      controller?.close();
    } catch {
      // The reader has cancelled the stream itself.
    }
  };
  const client: SseClient = {
    body: new ReadableStream<Uint8Array>(
      {
        start: (given) => void (controller = given),
        pull: () => onPull(client, !deliver()),
        cancel: end,
      },
      { highWaterMark: 0 },
    ),
    deliver: () => void deliver(),
    end,
  };
  return client;
}
