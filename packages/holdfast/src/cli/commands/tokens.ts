import { TOKEN_ROLES } from "../../access/roles.js";
import { command, group, YES, type Command } from "../parse/command.js";
import { UsageError } from "../errors.js";
import { CONNECTION_FLAGS, withAdmin } from "../store/admin-connection.js";
import { agoOf } from "../ui/format.js";
import { paint, type Part } from "../ui/style.js";

const create = command({
  name: "create",
  summary: "Create an API token. The secret is printed once.",
  arguments: { name: { kind: "text", description: "What the token is for. Shown in the audit log." } },
  flags: {
    role: { kind: "choice", choices: TOKEN_ROLES, required: true, description: "Permissions of the token." },
    user: {
      kind: "text",
      description: "User whose jobs the token may access. Required for the role user, and only allowed with it.",
    },
    expires: { kind: "duration", description: "Expire after this duration, e.g. 30d. Default: never." },
    ...CONNECTION_FLAGS,
  },
  examples: [
    { line: "tokens create ci --role operator --expires 90d", description: "For scripts that enqueue and retry jobs." },
    { line: "tokens create ada --role user --user ada", description: "For the jobs of one user." },
  ],
  async run(context, { flags, args }) {
    const { role, user, expires: expiresIn } = flags;
    if (role === "user" && user === undefined) throw new UsageError("--role user requires --user <user>");
    if (role !== "user" && user !== undefined) throw new UsageError(`--user requires --role user, not ${role}`);
    await withAdmin(context, { ...flags, createsStore: true }, async (client) => {
      const created = await client.tokens.create({
        name: args.name,
        role,
        ...(user !== undefined && { user }),
        ...(expiresIn !== undefined && { expiresIn }),
      });
      context.output.result(created, (writer) => writer.line(created.token));
      context.output.note(paint("Store it now; it cannot be shown again.", "gray"));
    });
  },
});

const list = command({
  name: "list",
  summary: "List API tokens, without their secrets.",
  flags: CONNECTION_FLAGS,
  run: (context, { flags }) =>
    withAdmin(context, flags, async (client) => {
      const { tokens } = await client.tokens.list();
      context.output.result({ tokens }, (writer) => {
        if (tokens.length === 0) return writer.line("No API tokens.");
        const now = Date.now();
        writer.table(
          [
            { title: "Id", whole: true },
            { title: "Name" },
            { title: "Role" },
            { title: "Created" },
            { title: "Expires" },
          ],
          tokens.map(({ id, name, role, user, createdAt, expiresAt }): Part[] => [
            id,
            name,
            user === null ? role : `${role} ${user}`,
            agoOf(createdAt, now),
            expiresAt === null ? "never" : agoOf(expiresAt, now),
          ]),
        );
      });
    }),
});

const revoke = command({
  name: "revoke",
  summary: "Revoke an API token immediately.",
  arguments: { id: { kind: "text", description: "Token id, as printed by tokens list." } },
  flags: { yes: YES, ...CONNECTION_FLAGS },
  async run(context, { flags, args }) {
    const { id } = args;
    await context.confirm(`Revoke token ${id}?`, flags.yes);
    await withAdmin(context, flags, async (client) => {
      const { status } = await client.tokens.revoke({ id });
      context.output.result({ id, status }, (writer) => writer.line(`Revoked ${id}`));
    });
  },
});

export const tokensCommand: Command = group({
  name: "tokens",
  summary: "Create, list and revoke API tokens.",
  commands: [create, list, revoke],
});
