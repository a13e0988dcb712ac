/** Why a body was not read. */
export type BodyProblem = "too large" | "too slow" | "incomplete";

export interface BodyLimits {
  maxBytes: number;
  timeoutMs: number;
}

/**
 * Reads the raw body of a request, within limits of size and time. What is left of a body is not cancelled: on Node that would
 * close the connection before the response is sent. The server discards it.
 */
export async function readBody(
  request: Request,
  { maxBytes, timeoutMs }: BodyLimits,
): Promise<Uint8Array | BodyProblem> {
  // Absent for chunked bodies; those are counted while they arrive.
  if (Number(request.headers.get("content-length")) > maxBytes) return "too large";
  if (request.body === null) return new Uint8Array();
  const reader = (request.body as ReadableStream<Uint8Array>).getReader();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"too slow">((resolve) => (timer = setTimeout(resolve, timeoutMs, "too slow")));
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for (;;) {
      const chunk = await Promise.race([reader.read(), late]);
      if (chunk === "too slow") return chunk;
      if (chunk.done) return Buffer.concat(chunks);
      bytes += chunk.value.byteLength;
      if (bytes > maxBytes) return "too large";
      chunks.push(chunk.value);
    }
  } catch {
    return "incomplete";
  } finally {
    clearTimeout(timer);
    reader.releaseLock();
  }
}
