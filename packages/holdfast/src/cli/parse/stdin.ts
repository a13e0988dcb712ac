import { Failure } from "../errors.js";

/** What `-` stands for, where an argument may be read from stdin. */
export const STDIN: unique symbol = Symbol("stdin");

/** All of a stream as text, up to so many bytes. */
export async function readAll(stream: AsyncIterable<Buffer | string>, mostBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    const part = Buffer.from(chunk);
    bytes += part.length;
    if (bytes > mostBytes) throw new Failure(`stdin is longer than ${mostBytes} bytes`);
    chunks.push(part);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch (error) {
    throw new Failure("stdin is not UTF-8", { cause: error });
  }
}
