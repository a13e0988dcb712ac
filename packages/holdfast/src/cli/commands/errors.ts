import type { ErrorGroupResult } from "../../admin/contract/api-types.js";
import { command, type Command } from "../parse/command.js";
import { CONNECTION_FLAGS, withAdmin } from "../store/admin-connection.js";
import { connectionFlags } from "../store/open.js";
import { agoOf, countOf } from "../ui/format.js";
import { paint, type Part } from "../ui/style.js";

export const errorsCommand: Command = command({
  name: "errors",
  summary: "List groups of failed attempts with the same error, the latest first.",
  about:
    "Errors are grouped by job type, class, code, function and message; numbers, ids, quoted text and paths in the message do not matter. The flag --fingerprint of jobs list, retry, cancel and delete selects the jobs of a group.",
  flags: {
    type: { kind: "text", description: "Only groups of this job type." },
    limit: { kind: "count", min: 1, max: 1_000, default: 20, description: "Maximum number of groups." },
    ...CONNECTION_FLAGS,
  },
  examples: [
    { line: "errors", description: "The latest groups." },
    { line: "errors --type email.welcome", description: "The groups of a job type." },
  ],
  run: (context, { flags }) =>
    withAdmin(context, flags, async (client) => {
      const { type, limit } = flags;
      const { groups } = await client.errors.list({ limit, ...(type !== undefined && { type }) });
      context.output.result({ groups }, (writer) => {
        if (groups.length === 0) return writer.line("No failed attempts.");
        const now = Date.now();
        writer.table(
          [
            { title: "Fingerprint", whole: true },
            { title: "Type", minWidth: 12 },
            { title: "Count", align: "right", whole: true },
            { title: "Last", whole: true },
            { title: "Error", minWidth: 30, below: true },
          ],
          groups.map((group): Part[] => [
            group.fingerprint,
            group.type ?? paint("any", "gray"),
            countOf(group.count),
            agoOf(group.lastAt, now),
            errorText(group),
          ]),
        );
      });
      const [first] = groups;
      if (first === undefined) return;
      const on = connectionFlags(context.config, flags.url);
      context.output.note(
        paint(`To list the jobs of a group, run: holdfast jobs list --fingerprint ${first.fingerprint}${on}`, "gray"),
      );
    }),
});

function errorText({ name, message, frame }: ErrorGroupResult): string {
  const what = name === null || name === "Error" ? message : `${name}: ${message}`;
  return frame === null ? what : `${what} – ${frame}`;
}
