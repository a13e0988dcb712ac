import { chmodSync, chownSync, existsSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { randomUUID } from "node:crypto";
import { findFile, FILE_NAME, readFile, refuseUntrustedConfig, type ConfigFile, type Place } from "./file.js";
import { InvalidConfigError } from "./invalid-config.js";
import { hideSecret } from "../access/secret.js";
import { keyOf, type KeyName } from "./keys.js";
import type { Value } from "./kind.js";
import { lockOf, withLock } from "./lock.js";
import { showPath } from "./source.js";
import { systemReason } from "./system-error.js";
import { isTable, setInText, unsetInText } from "./toml-edit.js";

/** The file that a change goes to: the one that is used, or a new one in the current folder. */
export function fileToWrite(place: Place): string {
  return findFile(place)?.path ?? join(place.cwd, FILE_NAME);
}

/** The same, where it may be changed: a password must not go into a file of somebody else. */
function trustedFileToWrite(place: Place): string {
  const path = fileToWrite(place);
  if ((findFile(place)?.named ?? null) === null) refuseUntrustedConfig(path, place);
  return path;
}

/** A file that a key was set in. */
export interface Written {
  readonly path: string;
  /** Every user could read it, and a secret went into it: now only its owner can. */
  readonly narrowed: boolean;
}

/** Sets a key in the file, which is made if there is none. A file with a secret in it is for its owner alone. */
export async function setKey(place: Place, key: KeyName, value: Value): Promise<Written> {
  const path = trustedFileToWrite(place);
  const edit = (file: ConfigFile | null): string => {
    const edited = setInText(file?.text ?? "", key, value);
    if (edited === null) throw cannotEdit(path, key, place.cwd);
    return edited;
  };
  return { path, narrowed: await change(path, place.cwd, edit, hasSecret(key, value)) };
}

function hasSecret(key: KeyName, value: Value): boolean {
  return keyOf(key).secret === true && typeof value === "string" && hideSecret(value) !== value;
}

const OTHERS = 0o007;

/** A file that is closed to others but open to a group, 0640 say, was made so on purpose. Windows has no such modes. */
function isOpenToAll(path: string): boolean {
  const file = process.geteuid === undefined ? undefined : statSync(path, { throwIfNoEntry: false });
  return file !== undefined && (file.mode & OTHERS) !== 0;
}

/** Takes a key out of the file. Answers its path; null if the key is not in it. */
export async function unsetKey(place: Place, key: KeyName): Promise<string | null> {
  const path = trustedFileToWrite(place);
  const isThere = (file: ConfigFile | null): file is ConfigFile => file !== null && has(file, key);
  // Without a lock, for which there may be no folder.
  if (!isThere(readFile(path, place.cwd))) return null;
  let found = false;
  await change(path, place.cwd, (file) => {
    found = isThere(file);
    if (!isThere(file)) return null;
    const edited = unsetInText(file.text, key);
    if (edited === null) throw cannotEdit(path, key, place.cwd);
    return edited;
  });
  return found ? path : null;
}

/**
 * Reads, edits and writes the file while nobody else does: of two that change it at once, the one would write what it had read
 * before the other's change. Null from `edit` leaves the file alone. A file that a secret goes into is closed to others; answers whether
 * it was open.
 */
async function change(
  path: string,
  cwd: string,
  edit: (file: ConfigFile | null) => string | null,
  secret = false,
): Promise<boolean> {
  try {
    return await withLock(lockOf(targetOf(path)), (refuseIfLost) => {
      const file = readFile(path, cwd);
      const edited = edit(file);
      const narrows = secret && isOpenToAll(path);
      if (edited === null || (edited === (file?.text ?? "") && !narrows)) return false;
      writeWhole(path, edited, secret ? 0o600 : 0o666, refuseIfLost);
      return narrows;
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall === undefined) throw error;
    throw new InvalidConfigError([`${path} cannot be written: ${systemReason(error)}`]);
  }
}

/** A link stays one. */
function targetOf(path: string): string {
  return existsSync(path) ? realpathSync(path) : path;
}

function has({ table }: ConfigFile, key: KeyName): boolean {
  let within: unknown = table;
  for (const part of key.split(".")) {
    if (!isTable(within) || !Object.hasOwn(within, part)) return false;
    within = within[part];
  }
  return true;
}

function cannotEdit(path: string, key: KeyName, cwd: string): InvalidConfigError {
  const [section = ""] = key.split(".");
  return new InvalidConfigError([
    `${showPath(path, cwd)} is written in a way that ${key} cannot be changed in; edit it by hand (${section} must be a section)`,
  ]);
}

/**
 * All or nothing: whoever reads meanwhile, or after a crash, has the old file or the new one. Its owner stays. So does its mode, unless
 * `mode` closes the file to others. A new file has `mode` from the start, less the umask.
 */
function writeWhole(path: string, text: string, mode: number, refuseIfLost: () => void): void {
  const before = statSync(path, { throwIfNoEntry: false });
  const target = targetOf(path);
  const temporary = join(dirname(target), `.${FILE_NAME}.${randomUUID()}`);
  const kept = before && (mode === 0o600 && isOpenToAll(path) ? before.mode & mode : before.mode & 0o7777);
  try {
    writeFileSync(temporary, text, { flag: "wx", flush: true, mode: (kept ?? mode) & 0o777 });
    if (before !== undefined && kept !== undefined) {
      keepOwner(temporary, before);
      // The mode given above went through the umask.
      chmodSync(temporary, kept);
    }
    // The disk may have taken its time.
    refuseIfLost();
    renameSync(temporary, target);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

function keepOwner(path: string, { uid, gid }: { uid: number; gid: number }): void {
  try {
    chownSync(path, uid, gid);
  } catch {
    // Only root may give a file away; whoever may write into the folder may have it replaced.
  }
}
