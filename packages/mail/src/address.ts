/** An address of a mail, with the name that mail programs show; `name` is empty if there is none. */
export interface Address {
  readonly name: string;
  readonly address: string;
}

const MAX_LENGTH = 320;
// Unquoted names must not contain the characters that separate addresses: `ada@example.com, Bob <bob@example.com>` is two addresses.
const WITH_NAME = /^\s*(?:"(?<quoted>(?:[^"\\]|\\.)*)"|(?<plain>[^"<>()[\]:;@\\,]*?))\s*<(?<address>[^<>]*)>\s*$/;
const ADDRESS = /^[^\s@<>()[\]\\,;:"]+@(?<domain>[^\s@<>()[\]\\,;:"]+)$/;
const LABEL = /^[\p{L}\p{N}](?:[\p{L}\p{N}-]*[\p{L}\p{N}])?$/u;

/** Reads `ada@example.com`, `Ada <ada@example.com>` or `"Lovelace, Ada" <ada@example.com>`; null if it is none of these. */
export function parseAddress(given: string): Address | null {
  if (given.length > MAX_LENGTH || !isOneLine(given)) return null;
  const found = WITH_NAME.exec(given)?.groups;
  const address = found?.["address"] ?? given;
  if (!isAddress(address)) return null;
  const name = found?.["quoted"]?.replaceAll(/\\(.)/g, "$1") ?? found?.["plain"] ?? "";
  return { name, address };
}

/** Whether it is an address without a name, such as `ada@example.com`. */
export function isAddress(given: string): boolean {
  const domain = given.length <= MAX_LENGTH ? ADDRESS.exec(given)?.groups?.["domain"] : undefined;
  return isOneLine(given) && (domain?.split(".").every((label) => LABEL.test(label)) ?? false);
}

/** `Ada <ada@example.com>`, with the name in quotes where it must be. */
export function formatAddress({ name, address }: Address): string {
  if (name === "") return address;
  const shown = /^[\p{L}\p{N} _'+-]*$/u.test(name) ? name : `"${name.replaceAll(/["\\]/g, "\\$&")}"`;
  return `${shown} <${address}>`;
}

/** Whether it has no control characters, with which a header could be injected, and is valid Unicode. */
export function isOneLine(given: string): boolean {
  return !/\p{Cc}|\u2028|\u2029/u.test(given) && given.isWellFormed();
}

/** Hides addresses: errors are logged and stored, and must not contain any. */
export function withoutAddresses(text: string): string {
  return text.replaceAll(/[^\s<>"'(),:;]+@[^\s<>"'(),:;]+/g, "[address]");
}
