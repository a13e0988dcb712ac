import { createHmac, timingSafeEqual } from "node:crypto";

/** How old a signature may be, so that a recorded request cannot be sent again later. */
const TOLERANCE_SECONDS = 300;
const MAX_HEADER_LENGTH = 4_096;
// Stripe sends one signature per secret; there are two while a secret is rotated.
const MAX_SIGNATURES = 10;

/**
 * Verifies the header `Stripe-Signature`: `t=<seconds>,v1=<hex>,v1=<hex>`, each a HMAC-SHA256 of `<seconds>.<body>`. Returns what
 * is wrong, or null. Compares every signature with every secret, so the time shows nothing about either.
 */
export function problemOfSignature(
  header: string | null,
  body: Uint8Array,
  { secrets, nowMs }: { secrets: readonly string[]; nowMs: number },
): string | null {
  if (header === null || header === "") return "the header Stripe-Signature is missing";
  const { timestamp, signatures } = readHeader(header);
  if (timestamp === null || signatures.length === 0) return "the header Stripe-Signature is malformed";
  let isSigned = false;
  for (const secret of secrets) {
    const expected = createHmac("sha256", secret).update(`${timestamp}.`).update(body).digest();
    for (const signature of signatures) if (timingSafeEqual(signature, expected)) isSigned = true;
  }
  if (!isSigned) return "no signature matches: the webhook secret is another one, or the body was changed";
  // A time in the future is accepted, as by Stripe's own library: it is signed, and clocks differ.
  if (nowMs / 1_000 - Number(timestamp) > TOLERANCE_SECONDS) {
    return `the signature is older than ${TOLERANCE_SECONDS} s`;
  }
  return null;
}

function readHeader(header: string): { timestamp: string | null; signatures: Buffer[] } {
  let timestamp: string | null = null;
  const signatures: Buffer[] = [];
  if (header.length > MAX_HEADER_LENGTH) return { timestamp, signatures };
  for (const part of header.split(",")) {
    const [name = "", value = ""] = part.trim().split("=", 2);
    if (name === "t" && /^\d{1,12}$/.test(value)) timestamp = value;
    // Other schemes, such as `v0` of test events, are not signatures to trust.
    if (name === "v1" && /^[0-9a-f]{64}$/i.test(value) && signatures.length < MAX_SIGNATURES) {
      signatures.push(Buffer.from(value, "hex"));
    }
  }
  return { timestamp, signatures };
}
