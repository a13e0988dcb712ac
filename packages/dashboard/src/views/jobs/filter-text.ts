// The text of a filter in tokens: `state:dead user:"Ada Lovelace"`. Pure.

/** One part of a filter as it was typed. */
export interface RawToken {
  /** As typed, with its quotation marks. */
  text: string;
  /** It has a minus sign before it. */
  isExcluded: boolean;
  /** In lower case, without a path; empty for a word without a colon. */
  field: string;
  /** `order.id` of `input.order.id:o-17`; null if there is none. */
  path: string | null;
  /** Without quotation marks. */
  value: string;
  isQuoted: boolean;
  /** A quotation mark that is not closed. */
  isOpen: boolean;
  /** `~` before the value: it may be a part of what is there. */
  isPart: boolean;
}

const TOKEN = /^(-?)([a-z]+)(?:\.([^:]*))?:(~?)(.*)$/is;

/** Splits at spaces outside of quotation marks. */
export function splitTokens(text: string): string[] {
  const tokens: string[] = [];
  let start = 0;
  let isQuoted = false;
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at);
    if (isQuoted && char === "\\") at++;
    // Elsewhere, a quotation mark is a character as any other.
    else if (char === '"' && (isQuoted || beginsValue(text, start, at))) isQuoted = !isQuoted;
    else if (!isQuoted && /\s/.test(char)) {
      if (at > start) tokens.push(text.slice(start, at));
      start = at + 1;
    }
  }
  if (start < text.length) tokens.push(text.slice(start));
  return tokens;
}

/** Whether a colon is before this place, perhaps with `~`. */
function beginsValue(text: string, start: number, at: number): boolean {
  const colon = text[at - 1] === "~" ? at - 2 : at - 1;
  return colon >= start && text[colon] === ":";
}

export function readToken(text: string): RawToken {
  const [, minus = "", field = "", path, part = "", given = ""] = TOKEN.exec(text) ?? [];
  const none = { text, isQuoted: false, isOpen: false, isPart: false, isExcluded: false, path: null };
  if (field === "") return { ...none, field: "", value: text };
  const quoted = unquote(given);
  return {
    text,
    isExcluded: minus !== "",
    field: field.toLowerCase(),
    path: path ?? null,
    isPart: part !== "",
    value: quoted?.value ?? given,
    isQuoted: quoted !== null,
    isOpen: quoted?.isOpen === true,
  };
}

/** Null: it does not begin with a quotation mark. */
function unquote(text: string): { value: string; isOpen: boolean } | null {
  if (!text.startsWith('"')) return null;
  const isOpen = !/^"(?:[^"\\]|\\.)*"$/s.test(text);
  const inner = isOpen ? text.slice(1) : text.slice(1, -1);
  return { value: inner.replaceAll(/\\(.)/gs, "$1"), isOpen };
}
