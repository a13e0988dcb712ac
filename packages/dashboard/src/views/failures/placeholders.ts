/** A message of a group in parts: its placeholders, such as `<number>`, stand for what differs from failure to failure. */
export interface MessagePart {
  text: string;
  isPlaceholder: boolean;
}

const PLACEHOLDER = /<(url|email|id|time|text|path|address|number)>/;

export function messageParts(message: string): MessagePart[] {
  return message
    .split(PLACEHOLDER)
    .map((text, at) => ({ text, isPlaceholder: at % 2 === 1 }))
    .filter(({ text }) => text !== "");
}
