import { LIMITS } from "../../defaults.js";
import type { Context } from "./command.js";
import { UsageError } from "../errors.js";
import { STDIN } from "./stdin.js";

const MAX_BYTES = 4 * LIMITS.payloadBytes;

/** The input of a job: the parsed argument, or stdin if that was `-`. */
export async function readPayload(context: Context, given: unknown): Promise<unknown> {
  if (given !== STDIN) return given;
  const text = await context.readInput(MAX_BYTES);
  if (text.trim() === "") throw new UsageError("the input on stdin is empty", "omit the - for a job without input");
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UsageError(`the input on stdin is not JSON: ${(error as Error).message.replaceAll(/\s+/g, " ")}`);
  }
}
