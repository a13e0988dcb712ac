import { hostname, userInfo } from "node:os";

/** Who types commands here, for the audit log. */
export function operator(): string {
  let name = "somebody";
  try {
    name = userInfo().username;
  } catch {
    // In a container the user may have no name.
  }
  return `cli:${name}@${hostname()}`.slice(0, 200);
}
