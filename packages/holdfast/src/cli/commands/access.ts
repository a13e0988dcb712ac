import type { AuditResult } from "../../admin/contract/api-types.js";
import { TOKEN_ROLES } from "../../access/roles.js";
import { command, group, YES, type Command } from "../parse/command.js";
import { BadUsage } from "../errors.js";
import { readTime } from "../parse/instant.js";
import { REACH, reach } from "../store/admin-connection.js";
import { agoOf, clockOf } from "../ui/format.js";
import { paint, type Part } from "../ui/style.js";

const create = command({
  name: "create",
  summary: "Makes a token, and tells it this once.",
  arguments: { name: { kind: "text", says: "What it is for; the audit log names it so." } },
  flags: {
    role: { kind: "choice", choices: TOKEN_ROLES, required: true, says: "What it allows." },
    user: { kind: "text", says: "Whose jobs it sees and touches; with the role user, and only with that." },
    expires: { kind: "duration", says: "Worthless after this long, such as 30d. Default: never." },
    ...REACH,
  },
  examples: [
    { line: "tokens create ci --role operator --expires 90d", says: "For scripts that enqueue and retry." },
    { line: "tokens create ada --role user --user ada", says: "For one user's own jobs." },
  ],
  async run(context, { flags, args }) {
    const { role, user, expires: expiresIn } = flags;
    if (role === "user" && user === undefined) throw new BadUsage("--role user needs --user <user>");
    if (role !== "user" && user !== undefined) throw new BadUsage(`--user goes with --role user, and not with ${role}`);
    await reach(context, { ...flags, makes: true }, async (client) => {
      const made = await client.tokens.create({
        name: args.name,
        role,
        ...(user !== undefined && { user }),
        ...(expiresIn !== undefined && { expiresIn }),
      });
      context.output.answer(made, (page) => page.line(made.token));
      context.output.note(paint("Keep it: it is not shown again.", "gray"));
    });
  },
});

const list = command({
  name: "list",
  summary: "Shows tokens, without their secrets.",
  flags: REACH,
  run: (context, { flags }) =>
    reach(context, flags, async (client) => {
      const { tokens } = await client.tokens.list();
      context.output.answer({ tokens }, (page) => {
        if (tokens.length === 0) return page.line("There are no tokens.");
        const now = Date.now();
        page.table(
          [{ title: "Id", whole: true }, { title: "Name" }, { title: "Role" }, { title: "Made" }, { title: "Expires" }],
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
  summary: "Makes a token worthless, at once and everywhere.",
  arguments: { id: { kind: "text", says: "The token's id, as list shows it." } },
  flags: { yes: YES, ...REACH },
  async run(context, { flags, args }) {
    const { id } = args;
    await context.confirm(`Revoke the token ${id}?`, flags.yes);
    await reach(context, flags, async (client) => {
      const { status } = await client.tokens.revoke({ id });
      context.output.answer({ id, status }, (page) => page.line(`${id} is revoked`));
    });
  },
});

export const tokensCommand: Command = group({
  name: "tokens",
  summary: "Makes and revokes tokens of the API.",
  commands: [create, list, revoke],
});

/** Several tokens may have one name: the id says which it was. */
function whoOf({ actor, detail }: AuditResult): string {
  const { token } = (detail ?? {}) as { token?: unknown };
  return typeof token === "string" ? `${actor} ${token}` : actor;
}

export const auditCommand: Command = command({
  name: "audit",
  summary: "Shows who changed what, newest first.",
  flags: {
    actor: { kind: "text", says: "Only what this one did, such as token:ci." },
    action: { kind: "text", says: "Only this, such as jobs.retry." },
    after: {
      kind: "text",
      form: "past",
      placeholder: "time",
      says: "Only since then: an ISO time, or how long ago, such as 2h.",
    },
    before: { kind: "text", form: "past", placeholder: "time", says: "Only before then." },
    limit: { kind: "count", least: 1, most: 200, default: 50, says: "At most this many." },
    cursor: { kind: "text", says: "Go on where the page before ended." },
    ...REACH,
  },
  examples: [
    { line: "audit --after 1d --action jobs.remove", says: "Who deleted jobs since yesterday?" },
    { line: "audit --before 2026-06-01T00:00:00Z --json", says: "What was before June, for a script." },
  ],
  run(context, { flags }) {
    const { actor, action, limit, cursor } = flags;
    const after = flags.after === undefined ? undefined : readTime(flags.after, "past");
    const before = flags.before === undefined ? undefined : readTime(flags.before, "past");
    return reach(context, flags, async (client) => {
      const page = await client.audit.list({
        limit,
        ...(after !== undefined && { after }),
        ...(before !== undefined && { before }),
        ...(actor !== undefined && { actor }),
        ...(action !== undefined && { action }),
        ...(cursor !== undefined && { cursor }),
      });
      context.output.answer(page, (out) => {
        if (page.entries.length === 0) return out.line("There are no such entries.");
        out.table(
          [{ title: "When" }, { title: "Who" }, { title: "What" }, { title: "To" }, { title: "Count", align: "right" }],
          page.entries.map((entry): Part[] => [
            clockOf(entry.at),
            whoOf(entry),
            entry.action,
            entry.target ?? "",
            String(entry.count),
          ]),
        );
      });
      if (page.cursor !== null) context.output.note(paint(`There are more: --cursor ${page.cursor}`, "gray"));
    });
  },
});
