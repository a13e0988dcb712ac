import { UntrustedFileError } from "../../config/index.js";
import { HoldfastError } from "../../errors.js";
import { BadUsage, Failure } from "../errors.js";
import { coloured, paint } from "./style.js";
import { cleanBlock, jsonText } from "../../terminal-text.js";

/** An error as people read it: a sentence, a hint, and with `verbose` where it comes from. */
export function errorText(
  error: unknown,
  { colours, verbose, usage = null }: { colours: boolean; verbose: boolean; usage?: string | null },
): string {
  const label = (text: string, colour: "red" | "cyan"): string => coloured(text, paint(text, colour), colours);
  const lines = [`${label("error:", "red")} ${cleanBlock(sentenceOf(error))}`];
  const hint = hintOf(error, verbose, usage);
  if (hint !== null) lines.push(`${label("hint:", "cyan")} ${cleanBlock(hint)}`);
  if (verbose) lines.push(...stacksOf(error));
  return `${lines.join("\n")}\n`;
}

/** The same for programs, in one line: `{"error":{"code","message","hint"?,"stack"?}}`. */
export function errorJson(error: unknown, how: { verbose: boolean; usage?: string | null }): string {
  return `${jsonText({ error: errorFields(error, how) }, 0)}\n`;
}

/** The parts of an error that are told. */
export function errorFields(
  error: unknown,
  { verbose, usage = null }: { verbose: boolean; usage?: string | null },
): { code: string; message: string; hint?: string; stack?: string } {
  const hint = hintOf(error, verbose, usage);
  return {
    code: codeOf(error),
    message: sentenceOf(error),
    ...(hint !== null && { hint }),
    ...(verbose && { stack: stacksOf(error).join("\n") }),
  };
}

/** Does a call want its answers, and so its errors, for a program? Asked before the call is understood. */
export function wantsJson(words: readonly string[]): boolean {
  const typed = words.includes("--") ? words.slice(0, words.indexOf("--")) : words;
  const last = typed.findLast((word) => /^--(?:no-)?json(?:=|$)/.test(word));
  return last === "--json" || last === "--json=true";
}

/** Stable where the error is ours or Node's; any other is a mistake in somebody's code. */
function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === "string" && code !== "" ? code : "FAILED";
}

/** What happened. Errors of Node may have a code and no words. */
function sentenceOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.message !== "") return error.message;
  const { code } = error as { code?: unknown };
  const [inner] = error instanceof AggregateError ? (error.errors as unknown[]) : [];
  return inner === undefined ? (typeof code === "string" ? code : error.name) : sentenceOf(inner);
}

function hintOf(error: unknown, verbose: boolean, usage: string | null): string | null {
  if (error instanceof BadUsage) return error.hint ?? usage;
  if (error instanceof Failure || error instanceof UntrustedFileError) return error.hint;
  // Ours say themselves what to do.
  return error instanceof HoldfastError || verbose ? null : "--verbose shows where it comes from";
}

function stacksOf(error: unknown): string[] {
  const stacks: string[] = [];
  for (let at: unknown = error; at instanceof Error && stacks.length < 5; at = at.cause) {
    stacks.push(`${stacks.length === 0 ? "" : "caused by: "}${cleanBlock(at.stack ?? at.message)}`);
  }
  return stacks;
}
