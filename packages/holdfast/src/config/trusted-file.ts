import { lstatSync, realpathSync, statSync, type Stats } from "node:fs";
import { dirname } from "node:path";
import { HoldfastError } from "../errors.js";
import { showPath } from "./source.js";

/**
 * A file that another user of this machine can write, and that nobody has named: it was found in a folder, or another file names
 * it. It is not used, because it decides which code runs and which store gets the jobs.
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
 * Throws {@link UntrustedFileError} unless the file, its folder and what a link leads to belong to this user or to root, and only they
 * can write there. `wayOut` says how to use the file all the same.
 *
 * This user's primary group may write: with a umask of 002, which many systems set, every new file is writable by a group that has its
 * owner as the only member. Other groups may not. A sticky folder such as /tmp is fine: there only the owner of a file can replace it. Windows has no such owners.
 */
export function refuseUntrusted(path: string, { env, cwd }: { env: Env; cwd: string }, wayOut: string): void {
  const owners = trustedOwners(env);
  if (owners === null) return;
  const groups = trustedGroups(env);
  for (const each of stepsTo(path)) {
    const problem = problemOf(each, owners, groups) ?? problemOfFolder(dirname(each), owners, groups);
    if (problem === null) continue;
    const hint = problem.mend === null ? wayOut : `${problem.mend}; or ${wayOut}`;
    throw new UntrustedFileError(each, `${showPath(each, cwd)} ${problem.says}, so it is not used`, hint);
  }
}

/** Whether a file belongs to this user, to root or to this other owner; also where that cannot be told. */
export function isOwnedByTrusted(path: string, env: Env, other: number | undefined): boolean {
  const owner = statSync(path, { throwIfNoEntry: false })?.uid;
  return owner === undefined || owner === other || (trustedOwners(env)?.has(owner) ?? true);
}

/** As git does: with `sudo`, files of the user who called it are that user's own. */
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

/** The path, and what it leads to where there are links in it. */
function stepsTo(path: string): string[] {
  try {
    return [...new Set([path, realpathSync(path)])];
  } catch {
    // It is not there yet, or no longer.
    return [path];
  }
}

interface Problem {
  /** In words that follow the file. */
  says: string;
  /** What ends the problem, if that is a plain command. */
  mend: string | null;
}

function problemOf(path: string, owners: ReadonlySet<number>, groups: ReadonlySet<number>): Problem | null {
  const file = lstatSync(path, { throwIfNoEntry: false });
  if (file === undefined) return null;
  if (!owners.has(file.uid)) return { says: `belongs to another user (${uidOf(file)})`, mend: null };
  // The mode of a link means nothing.
  if (file.isSymbolicLink()) return null;
  if ((file.mode & WORLD_WRITABLE) !== 0) {
    return { says: "can be written by every user of this machine", mend: `chmod o-w ${path}` };
  }
  if (!isOpenToGroup(file, groups)) return null;
  return { says: `can be written by a group of other users (gid ${file.gid})`, mend: `chmod g-w ${path}` };
}

function isOpenToGroup({ mode, gid }: Stats, groups: ReadonlySet<number>): boolean {
  return (mode & GROUP_WRITABLE) !== 0 && !groups.has(gid);
}

function problemOfFolder(folder: string, owners: ReadonlySet<number>, groups: ReadonlySet<number>): Problem | null {
  const found = statSync(folder, { throwIfNoEntry: false });
  if (found === undefined) return null;
  if (!owners.has(found.uid)) {
    return { says: `is in a folder that belongs to another user (${folder}, ${uidOf(found)})`, mend: null };
  }
  if ((found.mode & STICKY) !== 0) return null;
  if ((found.mode & WORLD_WRITABLE) !== 0) {
    return {
      says: `is in a folder that every user of this machine can write to (${folder})`,
      mend: `chmod o-w ${folder}`,
    };
  }
  if (!isOpenToGroup(found, groups)) return null;
  return {
    says: `is in a folder that a group of other users can write to (${folder}, gid ${found.gid})`,
    mend: `chmod g-w ${folder}`,
  };
}

function uidOf({ uid }: Stats): string {
  return `uid ${uid}`;
}
