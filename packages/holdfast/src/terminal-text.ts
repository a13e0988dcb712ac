/**
 * Strings for a terminal. What a job says may come from anywhere: no character of it may move the cursor, change a title, turn the
 * direction of reading, or stand there unseen. Such characters are shown as their escapes.
 */

// Controls, formats (zero-width, bidirectional, tags), halves of pairs, private and unassigned characters; ends of lines that only some
// terminals know; and what else Unicode lets programs draw as nothing: variation selectors and fillers.
const INVISIBLE = String.raw`[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]`;
// An emoji may be made of several, joined by invisible characters.
const JOINS = String.raw`\ufe0f\u200d\u{e0020}-\u{e007f}`;
const SEQUENCE = String.raw`\p{Emoji}\p{Emoji_Modifier}?[${JOINS}][${JOINS}\u20e3\p{Extended_Pictographic}\p{Emoji_Modifier}]*`;
const FOUND = new RegExp(`${SEQUENCE}|${INVISIBLE}`, "gu");
const ONE_INVISIBLE = new RegExp(`^${INVISIBLE}$`, "u");

let known: RegExp | null = null;

/** Unicode's own list of emoji, or an invisible character: in others anything could be hidden. Made when needed, as it takes a while. */
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

/** One line without anything that a terminal would act on or hide. */
export function clean(text: string): string {
  return escapeInvisible(text.replaceAll(/\r?\n|\t/g, " "), escaped);
}

/** Like {@link clean}, with its lines. */
export function cleanBlock(text: string): string {
  return escapeInvisible(text.replaceAll("\r\n", "\n").replaceAll("\t", "  "), escaped);
}

function escaped(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  if (code < 0x100) return `\\x${hex.padStart(2, "0")}`;
  return code < 0x1_0000 ? `\\u${hex.padStart(4, "0")}` : `\\u{${hex}}`;
}

/** JSON that is safe to print: what JSON allows and terminals act on or hide is escaped, which changes no value. */
export function jsonText(value: unknown, indent: number): string {
  return escapeInvisible(JSON.stringify(value, null, indent) ?? "null", (character) =>
    character.replaceAll(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`),
  );
}
