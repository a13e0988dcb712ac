/** A message of a group in parts: those that differ from failure to failure, and those that do not. */
export interface MessagePart {
  text: string;
  varies: boolean;
}

/** What stands in a group's message for what differs. */
const PLACEHOLDER = /<(?:url|email|id|time|text|path|address|number)>/;

const MAX_LENGTH = 2_000;

/** The message of one failure, because people search for it. Where that does not match, the placeholders are shown. */
export function messageParts(message: string, example: string): MessagePart[] {
  const fixed = message.split(PLACEHOLDER);
  const text = example.slice(0, MAX_LENGTH).replaceAll(/\s+/g, " ").trim();
  const parts: MessagePart[] = [];
  let end = 0;
  for (const [at, part] of fixed.entries()) {
    const isLast = at === fixed.length - 1;
    const found = at === 0 ? 0 : isLast && part === "" ? text.length : text.indexOf(part, end + 1);
    if (found < 0 || !text.startsWith(part, found)) return [{ text: message, varies: false }];
    parts.push({ text: text.slice(end, found), varies: true }, { text: part, varies: false });
    end = found + part.length;
  }
  return parts.filter((part) => part.text !== "");
}
