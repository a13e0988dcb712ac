/** What a token allows, from the least to the most; `user` sees and touches the jobs of one user only. */
export const TOKEN_ROLES = ["user", "viewer", "operator", "admin"] as const;
export type TokenRole = (typeof TOKEN_ROLES)[number];

export function isTokenRole(value: unknown): value is TokenRole {
  return (TOKEN_ROLES as readonly unknown[]).includes(value);
}
