import { randomBytes } from "node:crypto";
import { hashPassword } from "./passwords.js";
import type { Site } from "./site.js";

const EDITOR = { email: "editor@lantern.example", name: "Grace", newsletter: false, isStaff: true };

/** The account of the editor. */
export interface Editor {
  /** A new link that signs the editor in once. */
  link(): string;
}

/** Creates the account of the editor, if there is none. Its password is random: the editor signs in with a link, or resets it. */
export async function createEditor({ members, sessions, url }: Site): Promise<Editor> {
  const editor =
    members.byEmail(EDITOR.email) ??
    members.add({ ...EDITOR, password: await hashPassword(randomBytes(32).toString("base64url")) });
  if (editor === null) throw new Error("the account of the editor could not be created");
  return { link: () => `${url}/sign-in/link/${sessions.createLink(editor.id)}` };
}
