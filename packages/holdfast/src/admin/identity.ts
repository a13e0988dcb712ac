import { ROLES, type Role, type RouteLine } from "./routes.js";

/** Who asks, as far as the API is concerned. */
export interface Identity {
  /** For the audit log: `token:ci`, `cli:ada@laptop`. */
  name: string;
  /** `user`: sees and touches the jobs of one user alone. */
  role: Role | "user";
  /** The user whose jobs it is bound to; null: to nobody's. */
  user: string | null;
}

/** Whether somebody may call a route. Null: nobody in particular. */
export function mayCall(identity: Identity | null, { role, ofUser }: Pick<RouteLine, "role" | "ofUser">): boolean {
  if (role === null) return true;
  if (identity === null) return false;
  if (identity.role === "user") return ofUser === true;
  return ROLES.indexOf(identity.role) >= ROLES.indexOf(role);
}
