import { isIP } from "node:net";

// Internet host names have no underscores, but container names often do.
const LABEL = /^(?!-)[\p{L}\p{M}\p{N}_-]{1,63}(?<!-)$/u;
const MAX_LENGTH = 253;

/** Whether this is a valid host name or IP address. Does not check that the host exists. */
export function isHost(text: string): boolean {
  if (isIP(text) !== 0) return true;
  const labels = text.replace(/\.$/, "").split(".");
  // A last label of digits would be an IP address, and that was ruled out above.
  return text.length <= MAX_LENGTH && labels.every((label) => LABEL.test(label)) && !/^\d+$/.test(labels.at(-1) ?? "");
}
