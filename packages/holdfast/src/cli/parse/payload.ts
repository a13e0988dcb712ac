import { LIMITS } from "../../defaults.js";
import type { Context } from "./command.js";
import { BadUsage } from "../errors.js";
import { STDIN } from "./stdin.js";

const MOST_BYTES = 4 * LIMITS.payloadBytes;

/** An input that was given as JSON, or with `-` on stdin. */
export async function readPayload(context: Context, given: unknown): Promise<unknown> {
  if (given !== STDIN) return given;
  const text = await context.readInput(MOST_BYTES);
  if (text.trim() === "") throw new BadUsage("the input is empty", "leave it out for a job without input");
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new BadUsage(`the input is not JSON: ${(error as Error).message.replaceAll(/\s+/g, " ")}`);
  }
}
