import { LIMITS } from "../../defaults.js";
import { InvalidOptionError } from "../../errors.js";
import { readName, show } from "../../options.js";
import { isTokenRole, ROLES, TOKEN_ROLES, type TokenRole } from "../../access/roles.js";
import type { RouteLine } from "../contract/routes.js";

/** Who asks, as far as the API is concerned. */
export interface Identity {
  /** For the audit log: `token:ci`, `cli:ada@laptop`. */
  name: string;
  /** `user`: sees and touches the jobs of one user alone. */
  role: TokenRole;
  /** The user whose jobs it is bound to; null: to nobody's. */
  user: string | null;
}

/**
 * Whom an application's own function names. Checked before anything is done: a role that is half of one thing and half of
 * another would let somebody see what is not theirs.
 */
export function readIdentity(given: Identity | null | undefined): Identity | null {
  if (given === null || given === undefined) return null;
  const { role } = given;
  // In plain JavaScript it may be left out.
  const user = (given.user as string | null | undefined) ?? null;
  const name = readName(given.name, "auth.name", LIMITS.actorLength);
  if (!isTokenRole(role)) {
    throw new InvalidOptionError("auth.role", `${show(role)} is none of ${TOKEN_ROLES.join(", ")}`);
  }
  if ((role === "user") !== (user !== null)) {
    throw new InvalidOptionError("auth.user", "goes with the role user, and only with that");
  }
  return { name, role, user: user === null ? null : readName(user, "auth.user", LIMITS.userLength) };
}

/** Whether somebody may call a route. Null: nobody in particular. */
export function mayCall(identity: Identity | null, { role, ofUser }: Pick<RouteLine, "role" | "ofUser">): boolean {
  if (role === null) return true;
  if (identity === null) return false;
  if (identity.role === "user") return ofUser === true;
  return ROLES.indexOf(identity.role) >= ROLES.indexOf(role);
}
