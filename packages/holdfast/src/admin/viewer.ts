// A viewer that reads so slowly is let go: it comes again by itself, and goes on with the counts of that moment.
const MOST_WAITING_BYTES = 1_048_576;

/** Somebody who reads a stream of events. */
export interface Viewer {
  /** The body of the answer. */
  readonly body: ReadableStream<Uint8Array>;
  /** All viewers are sent the same bytes: they are kept once, however many have yet to read them. */
  send(message: Uint8Array): void;
  end(): void;
}

/** `left` is called once, when the viewer has gone or was let go. */
export function newViewer(left: () => void): Viewer {
  let waiting: Uint8Array[] = [];
  let waitingBytes = 0;
  let isOver = false;
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const deliver = (): void => {
    while ((controller?.desiredSize ?? 0) > 0) {
      const message = waiting.shift();
      if (message === undefined) return;
      waitingBytes -= message.byteLength;
      controller?.enqueue(message);
    }
  };
  const leave = (): void => {
    if (isOver) return;
    isOver = true;
    // What has not been read is never sent: who does not read at all must not keep it in memory.
    waiting = [];
    left();
    try {
      controller?.close();
    } catch {
      // The viewer has left by itself.
    }
  };
  const body = new ReadableStream<Uint8Array>(
    { start: (given) => void (controller = given), pull: deliver, cancel: leave },
    { highWaterMark: 1 },
  );
  const viewer: Viewer = {
    body,
    send(message) {
      // One that is longer by itself is sent, or nobody would ever see it.
      if (waitingBytes > 0 && waitingBytes + message.byteLength > MOST_WAITING_BYTES) return leave();
      if (isOver) return;
      waiting.push(message);
      waitingBytes += message.byteLength;
      deliver();
    },
    end: leave,
  };
  return viewer;
}
