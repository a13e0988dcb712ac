import {
  mail,
  passwordReset,
  type Mail,
  type PasswordReset,
  type PasswordResetOptions,
  type ResetUser,
} from "@holdfast/mail";
import { smtp } from "@holdfast/mail/smtp";
import type { SmtpInbox } from "@holdfast/mail/testing";
import { fakeClock } from "holdfast/testing";
import { onTestFinished } from "vitest";
import type { PackDatabase } from "../../../holdfast/test/pack/scene.js";
import { openClient, openInbox, type Client } from "../scene.js";

export const ADA: ResetUser = { id: "user-1", email: "ada@example.com" };
export const LINK = "https://club.example/reset?token=";

export interface ResetScene extends Client {
  inbox: SmtpInbox;
  post: Mail;
  reset: PasswordReset;
  users: Map<string, ResetUser>;
  /** Posts an address to the route. */
  ask: (email: string) => Promise<Response>;
  /** Runs the job and returns the token in the mail. */
  deliver: () => Promise<string>;
}

export async function resetScene(
  given: PackDatabase,
  options: Partial<PasswordResetOptions<ResetUser>> = {},
): Promise<ResetScene> {
  const inbox = await openInbox();
  const clock = fakeClock();
  const users = new Map([[ADA.id, ADA]]);
  const post = mail({ transport: smtp(inbox.url), from: "Club <hello@club.example>" });
  onTestFinished(() => post.close());
  const reset = passwordReset({
    mail: post,
    users: {
      byEmail: (email) => [...users.values()].find((user) => user.email === email.toLowerCase()) ?? null,
      byId: (id) => users.get(id) ?? null,
    },
    db: given.db,
    link: (token) => LINK + token,
    clock,
    ...options,
  });
  const client = await openClient(given, { jobs: [...post.jobs, ...reset.jobs] }, clock);
  await reset.install(client.hf);
  const route = reset.request(client.hf);
  return {
    ...client,
    inbox,
    post,
    reset,
    users,
    ask: (email) => route(requestFor(email)),
    async deliver() {
      await client.hf.runNext();
      return tokenIn((await inbox.next()).text);
    },
  };
}

export function requestFor(email: string): Request {
  return new Request("http://club.example/password-reset/request", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ email }),
  });
}

export function tokenIn(text: string): string {
  const token = /token=([\w-]+)/.exec(text)?.[1];
  if (token === undefined) throw new Error("there is no token in the mail");
  return token;
}
