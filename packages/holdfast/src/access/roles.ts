/** What a token may do with all jobs; each role may do what those before it may. */
export const ROLES = ["viewer", "operator", "admin"] as const;
export type Role = (typeof ROLES)[number];

/** What a token allows, from the least to the most; `user` sees and touches the jobs of one user only. */
export const TOKEN_ROLES: readonly ["user", "viewer", "operator", "admin"] = ["user", ...ROLES];
export type TokenRole = (typeof TOKEN_ROLES)[number];

export function isTokenRole(value: unknown): value is TokenRole {
  return (TOKEN_ROLES as readonly unknown[]).includes(value);
}
