import { LIMITS } from "../../defaults.js";
import { InvalidOptionError } from "../../errors.js";
import { readName, show } from "../../options.js";
import { isTokenRole, ROLES, TOKEN_ROLES, type TokenRole } from "../../access/roles.js";
import type { RouteLine } from "../contract/routes.js";

/** Who calls the API, and with which role. */
export interface Identity {
  /** The actor in the audit log: `token:ci`, `cli:ada@laptop`. */
  name: string;
  /** `user`: sees and changes only the jobs of one user. */
  role: TokenRole;
  /** The user whose jobs the role `user` may access; null for other roles. */
  user: string | null;
}

/**
 * Checks the identity that the application's `auth` function returned. A role `user` without a user, or another role with one,
 * could expose jobs of other users, so it is rejected before anything else happens.
 */
export function readIdentity(given: Identity | null | undefined): Identity | null {
  if (given === null || given === undefined) return null;
  const { role } = given;
  // Plain JavaScript may omit it.
  const user = (given.user as string | null | undefined) ?? null;
  const name = readName(given.name, "auth.name", LIMITS.actorLength);
  if (!isTokenRole(role)) {
    throw new InvalidOptionError("auth.role", `${show(role)} is not a role; use ${TOKEN_ROLES.join(", ")}`);
  }
  if ((role === "user") !== (user !== null)) {
    throw new InvalidOptionError("auth.user", "must be set for the role user, and only for that role");
  }
  return { name, role, user: user === null ? null : readName(user, "auth.user", LIMITS.userLength) };
}

/** Whether an identity may call a route. Null: an unauthenticated caller. */
export function isAuthorized(
  identity: Pick<Identity, "role"> | null,
  { role, ofUser }: Pick<RouteLine, "role" | "ofUser">,
): boolean {
  if (role === null) return true;
  if (identity === null) return false;
  if (identity.role === "user") return ofUser === true;
  return ROLES.indexOf(identity.role) >= ROLES.indexOf(role);
}
