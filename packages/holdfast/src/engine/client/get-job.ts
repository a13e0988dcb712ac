import { LIMITS } from "../../defaults.js";
import { InvalidOptionError } from "../../errors.js";
import type { UniqueOptions } from "../../job/enqueue-types.js";
import type { Job } from "../../job/job.js";
import { readId } from "../../job/uuid.js";
import { optionKeys, readName, refuseUndefined, refuseUnknown, show } from "../../options.js";
import type { Scope } from "../../store.js";
import type { EngineContext } from "../context.js";
import { keyInScope } from "../enqueue/unique.js";
import { readJob } from "./job-view.js";

/** A job by the unique key that it holds now. For a calendar key, pass its scope too. */
export interface KeyTarget {
  key: string;
  /** The user whose key it is, if the job has one. */
  user?: string;
  scope?: NonNullable<UniqueOptions["scope"]>;
}

const KEY_KEYS: ReadonlySet<string> = optionKeys<KeyTarget>({ key: true, user: true, scope: true });

/** The stored form of the key. */
export function keyOf(target: KeyTarget, now: number): string {
  refuseUnknown(target, KEY_KEYS, "a key");
  const { key, user, scope = "live" } = target;
  if (key === undefined) throw new InvalidOptionError("key", "is undefined; give it a value");
  refuseUndefined(target);
  if (user !== undefined) readName(user, "user", LIMITS.userLength);
  return keyInScope(key, scope, user, now);
}

/** The record of a job with its history; null if it does not exist or is not in `scope`. */
export async function getJob(
  { store, clock }: EngineContext,
  target: string | KeyTarget,
  scope: Scope,
): Promise<Job | null> {
  const id = typeof target === "string" ? readId(target) : await holderOf(target);
  const stored = id === null ? null : await store.get(id, scope);
  return stored === null ? null : readJob(stored, { hasHistory: true });

  async function holderOf(given: KeyTarget): Promise<string | null> {
    if (typeof given !== "object" || given === null)
      throw new InvalidOptionError("id", `${show(given)} is neither a job id nor { key }`);
    const user = scope.user ?? given.user;
    const holder = await store.keyHolder(keyOf({ ...given, ...(user !== undefined && { user }) }, clock.now()));
    return holder?.job ?? null;
  }
}
