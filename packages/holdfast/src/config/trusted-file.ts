import { lstatSync, realpathSync, statSync, type Stats } from "node:fs";
import { dirname } from "node:path";
import { HoldfastError } from "../errors.js";
import { showPath } from "./source.js";

/**
 * A file that other users of this machine can write, and that was not named explicitly: it was found in a folder, or another file
 * names it. It is refused, because it decides which code runs and which store gets the jobs.
 */
export class UntrustedFileError extends HoldfastError {
  readonly path: string;
  /** What to do. */
  readonly hint: string;
  constructor(path: string, problem: string, hint: string) {
    super("UNTRUSTED_FILE", problem);
    this.path = path;
    this.hint = hint;
  }
}

type Env = Readonly<Record<string, string | undefined>>;

const GROUP_WRITABLE = 0o020;
const WORLD_WRITABLE = 0o002;
const STICKY = 0o1000;

/**
 * Throws {@link UntrustedFileError} unless the file, its folder and the target of a symbolic link are owned by this user or root, and
 * only they can write to them. `override` is a hint how to use the file anyway.
 *
 * The user's primary group may write: many systems set a umask of 002, which makes every new file writable by a group that has its
 * owner as the only member. Other groups may not. A sticky folder such as /tmp is allowed, because only the owner of a file can
 * replace it there. On Windows nothing is checked.
 */
export function refuseUntrusted(path: string, { env, cwd }: { env: Env; cwd: string }, override: string): void {
  const owners = trustedOwners(env);
  if (owners === null) return;
  const groups = trustedGroups(env);
  for (const each of stepsTo(path)) {
    const problem = problemOf(each, owners, groups) ?? problemOfFolder(dirname(each), owners, groups);
    if (problem === null) continue;
    const hint = problem.fix === null ? override : `${problem.fix}; or ${override}`;
    throw new UntrustedFileError(each, `${showPath(each, cwd)} ${problem.message}, so it is not used`, hint);
  }
}

/** Whether a file is owned by this user, root or `other`. Also true if the owner is unknown. */
export function isOwnedByTrusted(path: string, env: Env, other: number | undefined): boolean {
  const owner = statSync(path, { throwIfNoEntry: false })?.uid;
  return owner === undefined || owner === other || (trustedOwners(env)?.has(owner) ?? true);
}

/** With `sudo`, also trusts the user who called it, like git. */
function trustedOwners(env: Env): ReadonlySet<number> | null {
  const uid = process.geteuid?.();
  if (uid === undefined) return null;
  const sudo = uid === 0 && /^\d+$/.test(env["SUDO_UID"] ?? "") ? [Number(env["SUDO_UID"])] : [];
  return new Set([0, uid, ...sudo]);
}

function trustedGroups(env: Env): ReadonlySet<number> {
  const sudo = process.geteuid?.() === 0 && /^\d+$/.test(env["SUDO_GID"] ?? "") ? [Number(env["SUDO_GID"])] : [];
  return new Set([0, process.getegid?.() ?? 0, ...sudo]);
}

/** The path, and its target if it contains symbolic links. */
function stepsTo(path: string): string[] {
  try {
    return [...new Set([path, realpathSync(path)])];
  } catch {
    // The file does not exist.
    return [path];
  }
}

interface Problem {
  /** Follows the path of the file. */
  message: string;
  /** A command that fixes the problem, if there is one. */
  fix: string | null;
}

function problemOf(path: string, owners: ReadonlySet<number>, groups: ReadonlySet<number>): Problem | null {
  const file = lstatSync(path, { throwIfNoEntry: false });
  if (file === undefined) return null;
  if (!owners.has(file.uid)) return { message: `belongs to another user (${uidOf(file)})`, fix: null };
  // The mode of a symbolic link has no meaning.
  if (file.isSymbolicLink()) return null;
  if ((file.mode & WORLD_WRITABLE) !== 0) {
    return { message: "can be written by every user of this machine", fix: `chmod o-w ${path}` };
  }
  if (!isOpenToGroup(file, groups)) return null;
  return { message: `can be written by a group of other users (gid ${file.gid})`, fix: `chmod g-w ${path}` };
}

function isOpenToGroup({ mode, gid }: Stats, groups: ReadonlySet<number>): boolean {
  return (mode & GROUP_WRITABLE) !== 0 && !groups.has(gid);
}

function problemOfFolder(folder: string, owners: ReadonlySet<number>, groups: ReadonlySet<number>): Problem | null {
  const found = statSync(folder, { throwIfNoEntry: false });
  if (found === undefined) return null;
  if (!owners.has(found.uid)) {
    return { message: `is in a folder that belongs to another user (${folder}, ${uidOf(found)})`, fix: null };
  }
  if ((found.mode & STICKY) !== 0) return null;
  if ((found.mode & WORLD_WRITABLE) !== 0) {
    return {
      message: `is in a folder that every user of this machine can write to (${folder})`,
      fix: `chmod o-w ${folder}`,
    };
  }
  if (!isOpenToGroup(found, groups)) return null;
  return {
    message: `is in a folder that a group of other users can write to (${folder}, gid ${found.gid})`,
    fix: `chmod g-w ${folder}`,
  };
}

function uidOf({ uid }: Stats): string {
  return `uid ${uid}`;
}
