import { isIP } from "node:net";

// An underscore is in no name of the Internet, but in many of containers.
const LABEL = /^(?!-)[\p{L}\p{M}\p{N}_-]{1,63}(?<!-)$/u;
const LONGEST = 253;

/** Can this be the name or the IP address of a host? Whether there is one, only the network knows. */
export function isHost(text: string): boolean {
  if (isIP(text) !== 0) return true;
  const labels = text.replace(/\.$/, "").split(".");
  // Digits at the end are an address, and this is none.
  return text.length <= LONGEST && labels.every((label) => LABEL.test(label)) && !/^\d+$/.test(labels.at(-1) ?? "");
}
