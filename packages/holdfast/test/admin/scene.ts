import { holdfast, job, type Holdfast, type HoldfastOptions, type JobType } from "holdfast";
import { admin, adminClient, type Admin, type AdminClient, type AdminOptions } from "holdfast/admin";
import { onTestFinished } from "vitest";
import { z } from "zod";
import { serve } from "#src/admin/http/serve.js";
import type { TokenRole } from "#src/access/roles.js";
import { addressOf, clientSchema, prepareSchema } from "../postgres/scene.js";
import { postgresServer } from "../postgres/server.js";

/** The stores that the API is tested on, each with the URL of an empty one. Called once by a test file, outside of its tests. */
export function adminStores(): readonly [name: string, url: () => string][] {
  const postgres = postgresServer();
  prepareSchema(postgres);
  return [
    ["SQLite", () => "sqlite::memory:"],
    ["PostgreSQL", () => addressOf(postgres.url(), clientSchema(postgres))],
  ];
}

export const mail: JobType<{ to: string; secret?: string | undefined }> = job({
  type: "mail",
  input: z.object({ to: z.string(), secret: z.string().optional() }),
  retry: { maxAttempts: 1 },
  run({ input, log, progress }) {
    log(`to ${input.to}`);
    progress(0.5, "half");
    if (input.to === "invalid") throw new Error("no such address");
    return { sent: true };
  },
});
export const never: JobType = job({ type: "never", run: () => {} });

export interface AdminScene {
  hf: Holdfast;
  api: Admin;
  url: string;
  token: (role: TokenRole, user?: string) => Promise<string>;
  /** An admin client with a token of this role. */
  as: (role: TokenRole, user?: string) => Promise<AdminClient>;
  /** Sends a raw request to a path of the server. */
  send: (path: string, init?: RequestInit & { token?: string }) => Promise<Response>;
}

/** A client, its admin API and a server on loopback. All are closed after the test. */
export async function adminScene(
  store: string,
  options: AdminOptions = {},
  more: HoldfastOptions = {},
): Promise<AdminScene> {
  const hf = await holdfast({ store, jobs: [mail, never], logger: false, ...more });
  const api = admin(hf, options);
  const server = await serve(api, { host: "127.0.0.1", port: 0 });
  onTestFinished(async () => {
    await api.close();
    await server.stop();
    await hf.close();
  });
  const token = async (role: TokenRole, user?: string): Promise<string> =>
    (await hf.tokens.create({ name: user ?? role, role, ...(user !== undefined && { user }) })).token;
  return {
    hf,
    api,
    url: server.url,
    token,
    as: async (role, user) => adminClient({ url: server.url, token: await token(role, user) }),
    send: (path, { token: sent, headers, ...init } = {}) =>
      fetch(`${server.url}${path}`, {
        ...init,
        headers: {
          ...(headers as Record<string, string>),
          ...(sent !== undefined && { authorization: `Bearer ${sent}` }),
        },
      }),
  };
}
