import { CommandError } from "../errors.js";

/** The parsed value of `-`, for arguments that may be read from stdin. */
export const STDIN: unique symbol = Symbol("stdin");

/** Reads a stream as UTF-8. Throws if it is longer than `maxBytes`. */
export async function readAll(stream: AsyncIterable<Buffer | string>, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    const part = Buffer.from(chunk);
    bytes += part.length;
    if (bytes > maxBytes) throw new CommandError(`stdin is longer than ${maxBytes} bytes`);
    chunks.push(part);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch (error) {
    throw new CommandError("stdin is not UTF-8", { cause: error });
  }
}
