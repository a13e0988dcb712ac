import { UntrustedFileError } from "../../config/index.js";
import { HoldfastError } from "../../errors.js";
import { UsageError, CommandError } from "../errors.js";
import { coloured, paint } from "./style.js";
import { cleanBlock, jsonText } from "../../terminal-text.js";

/** An error for people: a sentence, a hint, and with `verbose` the stack trace. */
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

/** An error for programs, in one line: `{"error":{"code","message","hint"?,"stack"?}}`. */
export function errorJson(error: unknown, how: { verbose: boolean; usage?: string | null }): string {
  return `${jsonText({ error: errorFields(error, how) }, 0)}\n`;
}

/** The fields of an error that are printed. */
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

/** A stable code for our errors and for those of Node; `FAILED` for any other. */
function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === "string" && code !== "" ? code : "FAILED";
}

/** The message. Errors of Node may have a code and an empty message. */
function sentenceOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.message !== "") return error.message;
  const { code } = error as { code?: unknown };
  const [inner] = error instanceof AggregateError ? (error.errors as unknown[]) : [];
  return inner === undefined ? (typeof code === "string" ? code : error.name) : sentenceOf(inner);
}

function hintOf(error: unknown, verbose: boolean, usage: string | null): string | null {
  if (error instanceof UsageError) return error.hint ?? usage;
  if (error instanceof CommandError || error instanceof UntrustedFileError) return error.hint;
  // The message of a HoldfastError includes what to do.
  return error instanceof HoldfastError || verbose ? null : "run with --verbose for the stack trace";
}

function stacksOf(error: unknown): string[] {
  const stacks: string[] = [];
  for (let at: unknown = error; at instanceof Error && stacks.length < 5; at = at.cause) {
    stacks.push(`${stacks.length === 0 ? "" : "caused by: "}${cleanBlock(at.stack ?? at.message)}`);
  }
  return stacks;
}
