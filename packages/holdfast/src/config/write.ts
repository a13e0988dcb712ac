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

/** The file to change: the current configuration file, or a new one in the current folder. */
export function fileToWrite(place: Place): string {
  return findFile(place)?.path ?? join(place.cwd, FILE_NAME);
}

/** The same, but refuses an untrusted file: a password must not be written to another user's file. */
function trustedFileToWrite(place: Place): string {
  const path = fileToWrite(place);
  if ((findFile(place)?.named ?? null) === null) refuseUntrustedConfig(path, place);
  return path;
}

/** The result of `setKey`. */
export interface Written {
  readonly path: string;
  /** A secret was written to a file that every user could read, so its mode was changed: only its owner can read it now. */
  readonly narrowed: boolean;
}

/** Sets a key in the file; creates the file if it does not exist. Only the owner may read a file with a secret. */
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

/**
 * Whether all users can access the file. A mode such as 0640 is left as it is, because it was chosen on purpose. Windows has no
 * modes.
 */
function isOpenToAll(path: string): boolean {
  const file = process.geteuid === undefined ? undefined : statSync(path, { throwIfNoEntry: false });
  return file !== undefined && (file.mode & OTHERS) !== 0;
}

/** Removes a key from the file. Returns the path of the file; null if it does not have the key. */
export async function unsetKey(place: Place, key: KeyName): Promise<string | null> {
  const path = trustedFileToWrite(place);
  const hasKey = (file: ConfigFile | null): file is ConfigFile => file !== null && has(file, key);
  // Checked without the lock first: its folder may not exist.
  if (!hasKey(readFile(path, place.cwd))) return null;
  let found = false;
  await change(path, place.cwd, (file) => {
    found = hasKey(file);
    if (!hasKey(file)) return null;
    const edited = unsetInText(file.text, key);
    if (edited === null) throw cannotEdit(path, key, place.cwd);
    return edited;
  });
  return found ? path : null;
}

/**
 * Reads, edits and writes the file under a lock, so that concurrent changes are not lost. If `edit` returns null, the file is not
 * changed. With `secret`, other users lose access to the file. Returns whether they had access.
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

/** Resolves symbolic links, so that the target is replaced and not the link. */
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
    `cannot change ${key} in ${showPath(path, cwd)} automatically; edit the file manually (${section} must be a section)`,
  ]);
}

/**
 * Replaces the file atomically: a concurrent reader, or a reader after a crash, sees the old or the new file. Owner and mode do not
 * change, unless `mode` removes access for others. A new file gets `mode`, less the umask.
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
      // writeFileSync applied the umask to the mode.
      chmodSync(temporary, kept);
    }
    // Writing may have taken long enough to lose the lock.
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
    // Only root may change the owner. Replacing the file is still allowed for a user who can write to the folder.
  }
}
