/**
 * Makes untrusted strings safe to print on a terminal. A job's log may contain characters that move the cursor, change the title,
 * reverse the reading direction or are invisible. They are printed as escapes.
 */

// Control and format characters (zero-width, bidirectional, tags), lone surrogates, private and unassigned characters, Unicode line
// separators, and other characters that may be drawn as nothing: variation selectors and fillers.
const INVISIBLE = String.raw`[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]`;
// An emoji may consist of several emoji joined by invisible characters.
const JOINS = String.raw`\ufe0f\u200d\u{e0020}-\u{e007f}`;
const SEQUENCE = String.raw`\p{Emoji}\p{Emoji_Modifier}?[${JOINS}][${JOINS}\u20e3\p{Extended_Pictographic}\p{Emoji_Modifier}]*`;
const FOUND = new RegExp(`${SEQUENCE}|${INVISIBLE}`, "gu");
const ONE_INVISIBLE = new RegExp(`^${INVISIBLE}$`, "u");

let known: RegExp | null = null;

/**
 * Matches an emoji of Unicode's own list, or an invisible character: other sequences could hide anything. Built on first use,
 * because that is slow.
 */
function emojiOrInvisible(): RegExp {
  known ??= new RegExp(String.raw`\p{RGI_Emoji}|${INVISIBLE}`, "gv");
  return known;
}

function escapeInvisible(text: string, escape: (character: string) => string): string {
  const shown = (part: string): string => (part !== "\n" && ONE_INVISIBLE.test(part) ? escape(part) : part);
  return text.replaceAll(FOUND, (found) =>
    ONE_INVISIBLE.test(found) ? shown(found) : found.replaceAll(emojiOrInvisible(), shown),
  );
}

/** Makes one safe line: line breaks and tabs become spaces. */
export function clean(text: string): string {
  return escapeInvisible(text.replaceAll(/\r?\n|\t/g, " "), escaped);
}

/** Like {@link clean}, but keeps line breaks. */
export function cleanBlock(text: string): string {
  return escapeInvisible(text.replaceAll("\r\n", "\n").replaceAll("\t", "  "), escaped);
}

function escaped(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  if (code < 0x100) return `\\x${hex.padStart(2, "0")}`;
  return code < 0x1_0000 ? `\\u${hex.padStart(4, "0")}` : `\\u{${hex}}`;
}

/** JSON that is safe to print: unsafe characters in strings are escaped, which does not change the parsed value. */
export function jsonText(value: unknown, indent: number): string {
  return escapeInvisible(JSON.stringify(value, null, indent) ?? "null", (character) =>
    character.replaceAll(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`),
  );
}
