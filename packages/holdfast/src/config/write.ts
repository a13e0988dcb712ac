import { chmodSync, chownSync, existsSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { randomUUID } from "node:crypto";
import { findFile, FILE_NAME, readFile, type ConfigFile, type Place } from "./file.js";
import { InvalidConfig } from "./invalid-config.js";
import type { KeyName } from "./keys.js";
import type { Value } from "./kind.js";
import { lockOf, withLock } from "./lock.js";
import { showPath } from "./source.js";
import { isTable, setInText, unsetInText } from "./toml-edit.js";

/** The file that a change goes to: the one that is used, or a new one in the current folder. */
export function fileToWrite(place: Place): string {
  return findFile(place)?.path ?? join(place.cwd, FILE_NAME);
}

/** Sets a key in the file, which is made if there is none. Answers its path. */
export async function setKey(place: Place, key: KeyName, value: Value): Promise<string> {
  const path = fileToWrite(place);
  await change(path, place.cwd, (file) => {
    const edited = setInText(file?.text ?? "", key, value);
    if (edited === null) throw cannotEdit(path, key, place.cwd);
    return edited;
  });
  return path;
}

/** Takes a key out of the file. Answers its path; null if the key is not in it. */
export async function unsetKey(place: Place, key: KeyName): Promise<string | null> {
  const path = fileToWrite(place);
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
 * before the other's change. Null from `edit` leaves the file alone.
 */
async function change(path: string, cwd: string, edit: (file: ConfigFile | null) => string | null): Promise<void> {
  try {
    await withLock(lockOf(targetOf(path)), (refuseIfLost) => {
      const file = readFile(path, cwd);
      const edited = edit(file);
      if (edited !== null && edited !== (file?.text ?? "")) writeWhole(path, edited, refuseIfLost);
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall === undefined) throw error;
    throw new InvalidConfig([`${path} cannot be written: ${(error as Error).message}`]);
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

function cannotEdit(path: string, key: KeyName, cwd: string): InvalidConfig {
  const [section = ""] = key.split(".");
  return new InvalidConfig([
    `${showPath(path, cwd)} is written in a way that ${key} cannot be changed in; edit it by hand (${section} must be a section)`,
  ]);
}

/** All or nothing: whoever reads meanwhile, or after a crash, has the old file or the new one. Mode and owner stay. */
function writeWhole(path: string, text: string, refuseIfLost: () => void): void {
  const before = statSync(path, { throwIfNoEntry: false });
  const target = targetOf(path);
  const temporary = join(dirname(target), `.${FILE_NAME}.${randomUUID()}`);
  try {
    writeFileSync(temporary, text, { flag: "wx", flush: true, ...(before && { mode: before.mode & 0o777 }) });
    if (before !== undefined) {
      keepOwner(temporary, before);
      // The mode given above went through the umask.
      chmodSync(temporary, before.mode & 0o7777);
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
