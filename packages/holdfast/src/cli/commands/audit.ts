import { API_ACTIONS } from "../../admin/calls/audit-entry.js";
import type { AuditResult } from "../../admin/contract/api-types.js";
import { didYouMean, showValue } from "../../config/index.js";
import { CLI_ACTIONS } from "../record-audit.js";
import { command, type Command, type Context } from "../parse/command.js";
import { readTime } from "../parse/instant.js";
import { CONNECTION_FLAGS, withAdmin } from "../store/admin-connection.js";
import { clockOf } from "../ui/format.js";
import { paint, type Part } from "../ui/style.js";

const ACTIONS: readonly string[] = [...API_ACTIONS, ...CLI_ACTIONS].toSorted();

/** Only a warning: the log may have entries of another version of Holdfast. */
function warnIfUnknown({ output }: Context, action: string): void {
  if (ACTIONS.includes(action)) return;
  const meant = didYouMean(action, ACTIONS) || `; known actions: ${ACTIONS.join(", ")}`;
  output.warn(`${showValue(action)} is not a known action${meant}`);
}

/** The actor, with the token id: several tokens may have the same name. */
function actorOf({ actor, detail }: AuditResult): string {
  const { token } = (detail ?? {}) as { token?: unknown };
  return typeof token === "string" ? `${actor} ${token}` : actor;
}

/** The start of a change of many jobs: how many it changed is in the entry of its end. */
function isStart({ action, detail }: AuditResult): boolean {
  return !action.startsWith("operation.") && typeof (detail as { operation?: unknown } | null)?.operation === "string";
}

export const auditCommand: Command = command({
  name: "audit",
  summary: "Show the audit log, newest first.",
  flags: {
    actor: { kind: "text", description: "Only entries of this actor, e.g. token:ci." },
    action: { kind: "text", complete: ACTIONS, description: "Only entries with this action, e.g. jobs.retry." },
    after: {
      kind: "text",
      form: "past",
      placeholder: "time",
      description: "Only entries after this time: an ISO time or an age, e.g. 2h.",
    },
    before: { kind: "text", form: "past", placeholder: "time", description: "Only entries before this time." },
    limit: { kind: "count", min: 1, max: 200, default: 50, description: "Maximum number of entries." },
    cursor: { kind: "text", description: "Continue after the previous page." },
    ...CONNECTION_FLAGS,
  },
  examples: [
    { line: "audit --after 1d --action jobs.remove", description: "Who deleted single jobs in the last 24 hours?" },
    { line: "audit --before 2026-06-01T00:00:00Z --json", description: "Entries before June, for a script." },
  ],
  run(context, { flags }) {
    const { actor, action, limit, cursor } = flags;
    const after = flags.after === undefined ? undefined : readTime(flags.after, "past");
    const before = flags.before === undefined ? undefined : readTime(flags.before, "past");
    if (action !== undefined) warnIfUnknown(context, action);
    return withAdmin(context, flags, async (client) => {
      const page = await client.audit.list({
        limit,
        ...(after !== undefined && { after }),
        ...(before !== undefined && { before }),
        ...(actor !== undefined && { actor }),
        ...(action !== undefined && { action }),
        ...(cursor !== undefined && { cursor }),
      });
      context.output.result(page, (writer) => {
        if (page.entries.length === 0) return writer.line("No matching entries.");
        writer.table(
          [
            { title: "Time" },
            { title: "Actor" },
            { title: "Action" },
            { title: "Target" },
            { title: "Count", align: "right" },
          ],
          page.entries.map((entry): Part[] => [
            clockOf(entry.at),
            actorOf(entry),
            entry.action,
            entry.target ?? "",
            isStart(entry) ? "–" : String(entry.count),
          ]),
        );
      });
      if (page.cursor !== null) context.output.note(paint(`More entries: --cursor ${page.cursor}`, "gray"));
    });
  },
});
