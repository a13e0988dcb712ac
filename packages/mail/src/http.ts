/** Reads the body of a request; null if it is larger than `maxBytes`. */
export async function readBody(request: Request, maxBytes: number, signal: AbortSignal): Promise<string | null> {
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) return null;
  const reader = request.body?.getReader();
  if (reader === undefined) return "";
  const cancel = (): void => void reader.cancel().catch(() => {});
  signal.addEventListener("abort", cancel, { once: true });
  try {
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    for (;;) {
      signal.throwIfAborted();
      const { done, value } = await reader.read();
      if (done) break;
      bytes += value.byteLength;
      if (bytes > maxBytes) {
        cancel();
        return null;
      }
      chunks.push(value);
    }
    signal.throwIfAborted();
    return Buffer.concat(chunks).toString();
  } finally {
    signal.removeEventListener("abort", cancel);
  }
}

/** A response with JSON that no cache keeps. */
export function jsonResponse(status: number, body: object, headers: Readonly<Record<string, string>> = {}): Response {
  return Response.json(body, { status, headers: { "cache-control": "no-store", ...headers } });
}

/** A response with an error, in the form of the admin API. */
export function errorResponse(
  status: number,
  code: string,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return jsonResponse(status, { error: { code, message } }, headers);
}
