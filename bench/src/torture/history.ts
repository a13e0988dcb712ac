import { appendFileSync, existsSync, readFileSync } from "node:fs";
import type { Fault } from "./plan.js";

/** What a process did. The order of the entries in the file is the order in which they happened. */
export type Entry = { at: number; pid: number } & Action;

/** The store was asked to store a wait, and has done so or not. */
export interface WaitEntry {
  did: "wait began" | "wait stored" | "wait refused";
  job: string;
  step: string;
  member: number;
}

/** An entry without its time and process. */
export type Action =
  /** The store has leased the job to this process. */
  | { did: "claimed"; job: string; fence: number }
  | { did: "run began"; job: string; fence: number }
  /** The handler returned, or threw (`error`: its code or name). */
  | { did: "run ended"; job: string; fence: number; error: string | null }
  /** The function of a step. `call` is unique for each call and part of its result. */
  | { did: "function began"; job: string; fence: number; step: string; call: string }
  | { did: "function ended"; job: string; fence: number; step: string; call: string }
  /** The step returned to the handler, so its result is stored. */
  | { did: "step returned"; job: string; fence: number; step: string; value: unknown }
  /** The store was asked to end a topic: to emit an event, or to settle a child job. `call` is that of an event's payload. */
  | { did: "topic began"; topic: string; call: string | null }
  /** The store has confirmed it. `first`: it was the first event of its name; null for jobs. */
  | { did: "topic ended"; topic: string; call: string | null; first: boolean | null }
  | WaitEntry
  /** The store has not ended the topic: the lease was lost, or the job's row was locked. */
  | { did: "topic refused"; topic: string }
  | { did: "fault"; fault: Fault; job: string };

/**
 * Appends one line, before the process goes on. What a process has written is not lost when it is killed, and lines of several
 * processes do not mix, because each is one small write.
 */
export function record(file: string, action: Action): void {
  appendFileSync(file, `${JSON.stringify({ at: Date.now(), pid: process.pid, ...action })}\n`);
}

export function readHistory(file: string): Entry[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Entry);
}
