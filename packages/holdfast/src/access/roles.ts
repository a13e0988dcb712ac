/** Roles with access to all jobs. Each includes the permissions of the previous ones. */
export const ROLES = ["viewer", "operator", "admin"] as const;
export type Role = (typeof ROLES)[number];

/** The roles of API tokens, by ascending permissions. `user` can read and change only the jobs of one user. */
export const TOKEN_ROLES: readonly ["user", "viewer", "operator", "admin"] = ["user", ...ROLES];
export type TokenRole = (typeof TOKEN_ROLES)[number];

export function isTokenRole(value: unknown): value is TokenRole {
  return (TOKEN_ROLES as readonly unknown[]).includes(value);
}
