import { expect, it } from "vitest";
import { readBody } from "../dist/body.js";

const LIMITS = { maxBytes: 10, timeoutMs: 60_000 };

function post(body: ReadableStream | string | null): Request {
  return new Request("http://localhost", { method: "POST", body, duplex: "half" });
}

function streamOf(...chunks: string[]): ReadableStream {
  return new ReadableStream({
    start(stream) {
      for (const chunk of chunks) stream.enqueue(new TextEncoder().encode(chunk));
      stream.close();
    },
  });
}

it("reads a body up to its limit", async () => {
  expect(await readBody(post(streamOf("01234", "56789")), LIMITS)).toEqual(Buffer.from("0123456789"));
  expect(await readBody(post(null), LIMITS)).toEqual(new Uint8Array());
});

it("stops at a body that is too large", async () => {
  let pulled = 0;
  const endless = new ReadableStream({
    pull(stream) {
      pulled++;
      stream.enqueue(new Uint8Array(4));
    },
  });
  expect(await readBody(post(endless), LIMITS)).toBe("too large");
  expect(pulled).toBeLessThan(6);
  const declared = new Request("http://localhost", { method: "POST", headers: { "content-length": "11" }, body: "" });
  expect(await readBody(declared, LIMITS)).toBe("too large");
});

it("does not wait for a body that does not end", async () => {
  const hanging = new ReadableStream({ start: (stream) => stream.enqueue(new Uint8Array(1)) });
  expect(await readBody(post(hanging), { ...LIMITS, timeoutMs: 20 })).toBe("too slow");
});

it("reports a body that breaks off", async () => {
  const broken = new ReadableStream({ start: (stream) => stream.error(new Error("reset")) });
  expect(await readBody(post(broken), LIMITS)).toBe("incomplete");
});
