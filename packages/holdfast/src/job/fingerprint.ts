import { createHash } from "node:crypto";
import { storableString } from "../storable-string.js";
import { codeOf, messageOf, nameOf, stackOf } from "./thrown.js";

/** Groups errors that have the same cause, so that a thousand failures of one kind are one line. */
export interface Fingerprint {
  /** 16 hexadecimal digits; the same for all errors of the group, in every process and version. */
  id: string;
  /** The name of the error's class; null if something else was thrown. */
  name: string | null;
  code: string | null;
  /** The message, with its variable parts replaced by placeholders such as `<number>`. */
  message: string;
  /** The function and file in which it was thrown; null if the error has no stack. */
  frame: string | null;
}

/** The fingerprint of jobs whose lease expired, of any type. Stores set it themselves. */
export const STALE_FINGERPRINT = "0000000000000001";
export const FINGERPRINT_PATTERN: RegExp = /^[0-9a-f]{16}$/;

// The rest of a longer message does not count.
const MAX_MESSAGE_LENGTH = 500;
// Read of a message before its variable parts are replaced: they have different lengths, so the limit above applies afterwards.
const MAX_RAW_LENGTH = 4 * MAX_MESSAGE_LENGTH;
const MAX_NAME_LENGTH = 100;
const MAX_FRAME_LENGTH = 200;
// Only the first frames are read: a stack may be megabytes long.
const MAX_STACK_LENGTH = 20_000;

/** Computes the fingerprint of anything that a handler may throw. Never throws. `stack` false: the stack does not count. */
export function fingerprintOf(type: string, thrown: unknown, { stack = true }: { stack?: boolean } = {}): Fingerprint {
  const name = nameOf(thrown);
  const code = codeOf(thrown);
  const parts = {
    name: name === null ? null : storableString(name, MAX_NAME_LENGTH),
    code: code === null ? null : storableString(code, MAX_NAME_LENGTH),
    message: normalizeMessage(messageOf(thrown)),
    frame: stack ? frameOf(stackOf(thrown), messageOf(thrown)) : null,
  };
  const text = JSON.stringify([type, parts.name, parts.code, parts.message, parts.frame]);
  return { id: createHash("sha256").update(text).digest("hex").slice(0, 16), ...parts };
}

/** In this order: an earlier pattern takes what a later one would split. */
const VARIABLE_PARTS: readonly (readonly [RegExp, string])[] = [
  [/\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s"'`<>)\]]+/gi, "<url>"],
  [/[^\s"'`<>@]{1,100}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,5}/gi, "<email>"],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, "<id>"],
  [/\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?\b/g, "<time>"],
  // As toString and toUTCString of a Date write it.
  [
    /\b(?:mon|tue|wed|thu|fri|sat|sun),? (?:[a-z]{3} \d{1,2}|\d{1,2} [a-z]{3}) \d{4} \d{2}:\d{2}:\d{2}(?: GMT(?:[+-]\d{4})?)?(?: \([^()\n]{1,60}\))?/gi,
    "<time>",
  ],
  [/\b\d{1,2}:\d{2}:\d{2}(?:\.\d{1,9})?\b/g, "<time>"],
  [/"[^"\n]{0,300}"|'[^'\n]{0,300}'(?![a-z])|`[^`\n]{0,300}`|“[^”\n]{0,300}”/gi, "<text>"],
  [/(?<![\w<])(?:[a-z]:)?[\\/](?:[\w.@+-]{1,100}[\\/]){1,30}[\w.@+-]{1,100}/gi, "<path>"],
  [/\b(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?\b/g, "<address>"],
  // IPv6, perhaps with the port that Node adds.
  [
    /(?<![\w:.])(?=\[?[0-9a-f:]{0,40}\d)\[?(?:[0-9a-f]{0,4}:){2,8}[0-9a-f]{0,5}\]?(?::\d{1,5})?(?![\w:])/gi,
    "<address>",
  ],
  // Words of letters and digits, such as cus_9sK3 or 4f2a9c: ids of other services.
  [/\b(?=[\w-]{0,100}\d)(?=[\w-]{0,100}[a-z])[\w-]{6,100}\b/gi, "<id>"],
  [/[+-]?\b\d+(?:[.,]\d+)*(?=\b|[a-z%])/gi, "<number>"],
];

/** Replaces the variable parts of a message, so that two messages of one kind are equal. */
export function normalizeMessage(message: string): string {
  let text = storableString(message.slice(0, MAX_RAW_LENGTH), MAX_RAW_LENGTH);
  for (const [pattern, placeholder] of VARIABLE_PARTS) text = text.replace(pattern, placeholder);
  return storableString(text.replace(/\s+/g, " ").trim(), MAX_MESSAGE_LENGTH);
}

/** Frames of Node and of installed packages: the error is more likely grouped by the application's own code. */
const FOREIGN = /\bnode:|[\\/]node_modules[\\/]/;
const FRAME = /^\s*at (?:(?:async )?(?<name>[^(]{1,200}) \()?(?<file>[^()\n]{1,500}?)(?::\d+){0,2}\)?$/;

/** The first frame of the application, else the first frame: function and file without line, because lines move. */
function frameOf(stack: string | null, message: string): string | null {
  if (stack === null) return null;
  // The message comes first. It may be long, and contain what looks like frames: those of another process, or of an attacker.
  const start = message === "" ? -1 : stack.indexOf(message);
  const first = Math.max(0, stack.indexOf("\n    at ", start < 0 ? 0 : start + message.length));
  const lines = stack
    .slice(first, first + MAX_STACK_LENGTH)
    .split("\n")
    .filter((line) => /^\s*at /.test(line));
  const line = lines.find((each) => !FOREIGN.test(each)) ?? lines[0];
  const { name, file } = line === undefined ? {} : (FRAME.exec(line.slice(0, 1_000))?.groups ?? {});
  if (file === undefined) return null;
  // The folder of an installation differs between machines.
  const place = file
    .split(/[\\/]/)
    .slice(-2)
    .join("/")
    .replace(/[?#].*$/, "");
  return storableString(name === undefined ? place : `${name.trim()} (${place})`, MAX_FRAME_LENGTH);
}
