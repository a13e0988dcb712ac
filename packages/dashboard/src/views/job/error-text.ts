import type { JobDetail } from "holdfast/admin";
import { DIRECTION } from "../../ui/json-model.js";

export type AttemptError = NonNullable<JobDetail["attempts"][number]["error"]>;

// ESC, then "[…m" and the like: colours of a terminal.
const ANSI = new RegExp(`${String.fromCharCode(27)}(?:\\[[0-9;?]*[ -/]*[@-~]|[@-Z\\\\-_])`, "g");

/** Text without the colour codes of terminals and without marks that turn the direction of writing. */
export function plain(text: string): string {
  return text.replace(ANSI, "").replace(DIRECTION, "");
}

const NAME = /^([A-Za-z_$][\w$.]*)(?: \[[^\]]*\])?(?:: |$)/;

/** The class of an error: errors are stored with their message, and their stack begins with the class. */
export function errorName({ message, stack }: Pick<AttemptError, "message" | "stack">): string | null {
  const first = plain(stack ?? "").split("\n", 1)[0] ?? "";
  const name = NAME.exec(first)?.[1];
  if (name === undefined) return null;
  // A message that begins with "Word: " is not a class.
  return first.includes(plain(message).split("\n", 1)[0]?.slice(0, 80) ?? "") && !message.startsWith(`${name}:`)
    ? name
    : null;
}

export interface FrameGroup {
  /** Frames of the application, not of a library or of Node.js. */
  isOwn: boolean;
  frames: string[];
}

/** The frames of a stack. Neighbouring frames of libraries are in one group. */
export function framesOf(stack: string): FrameGroup[] {
  const groups: FrameGroup[] = [];
  for (const line of plain(stack).split("\n")) {
    if (!/^\s+at /.test(line)) continue;
    const isOwn = !/node_modules[\\/]|[\\/]holdfast[\\/]dist[\\/]|\(node:|at node:|\(native\)|<anonymous>\)?$/.test(
      line,
    );
    const last = groups.at(-1);
    if (last?.isOwn === isOwn) last.frames.push(line.trim());
    else groups.push({ isOwn, frames: [line.trim()] });
  }
  return groups;
}
