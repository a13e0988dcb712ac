import type { EventBuffer } from "./event-buffer.js";

const ENCODER = new TextEncoder();
const HELLO = ENCODER.encode("retry: 2000\n\n");
/** Tells a viewer that events before this one were left out: what it shows is to be read again. */
const MISSED = ENCODER.encode("event: missed\ndata: {}\n\n");

/** A reader of a stream of events. */
export interface Viewer {
  /** The body of the response. */
  readonly body: ReadableStream<Uint8Array>;
  /** Delivers what is new. Only for a viewer that waits. */
  deliver(): void;
  end(): void;
}

export interface ViewerHooks {
  /** Called when the viewer asks for more. `waits`: there is nothing yet, and `deliver` is to be called when there is. */
  asked: (viewer: Viewer, waits: boolean) => void;
  /** Called once, when the viewer has gone or was disconnected. */
  left: (viewer: Viewer) => void;
}

/**
 * A stream that takes from the buffer when its reader asks and not before: nothing is queued for a viewer, and one that does
 * not read costs nothing, however much happens.
 */
export function newViewer(buffer: EventBuffer, { asked, left }: ViewerHooks): Viewer {
  let position = buffer.end;
  let isOver = false;
  let greeted = false;
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;

  const next = (): Uint8Array | null => {
    if (!greeted) {
      greeted = true;
      return HELLO;
    }
    const read = buffer.read(position);
    if (read === null) return null;
    position = read.next;
    return read.missed ? Buffer.concat([MISSED, read.bytes]) : read.bytes;
  };
  const deliver = (): boolean => {
    const bytes = isOver ? null : next();
    if (bytes !== null) controller?.enqueue(bytes);
    return bytes !== null;
  };
  const leave = (): void => {
    if (isOver) return;
    isOver = true;
    left(viewer);
    try {
      controller?.close();
    } catch {
      // The viewer has left by itself.
    }
  };
  const viewer: Viewer = {
    body: new ReadableStream<Uint8Array>(
      {
        start: (given) => void (controller = given),
        pull: () => asked(viewer, !deliver()),
        cancel: leave,
      },
      { highWaterMark: 0 },
    ),
    deliver: () => void deliver(),
    end: leave,
  };
  return viewer;
}
