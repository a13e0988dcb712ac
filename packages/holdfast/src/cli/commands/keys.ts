import type { FreeKeyResult } from "../../store.js";
import type { JobSummary } from "../../admin/contract/api-types.js";
import type { AdminClient } from "../../admin/contract/client.js";
import { connectionFlags } from "../store/open.js";
import { command, group, type Command } from "../parse/command.js";
import { CONNECTION_FLAGS, withAdmin } from "../store/admin-connection.js";

const RESULTS: Readonly<Record<FreeKeyResult, string>> = {
  freed: "freed",
  held: "not freed: its job exists",
  missing: "is not held",
};

async function holderOf(client: AdminClient, key: string, user: string | undefined): Promise<JobSummary | null> {
  const { jobs } = await client.jobs.list({ key, ...(user !== undefined && { user }), limit: 1 });
  return jobs[0] ?? null;
}

const free = command({
  name: "free",
  summary: "Free a unique key of scope forever whose job was deleted.",
  about: "A key whose job still exists is not freed. Delete that job, and its key is free.",
  arguments: { key: { kind: "text", description: "The unique key." } },
  flags: { user: { kind: "text", description: "User whose key it is." }, ...CONNECTION_FLAGS },
  examples: [{ line: "keys free order:17", description: "Allow a job with this key again." }],
  run: (context, { flags, args }) =>
    withAdmin(context, flags, async (client) => {
      const { key } = args;
      const { user } = flags;
      const { status } = await client.keys.free({ key, ...(user !== undefined && { user }) });
      const holder = status === "held" ? await holderOf(client, key, user) : null;
      const on = connectionFlags(context.config, flags.url);
      const result =
        holder === null
          ? RESULTS[status]
          : `not freed: job ${holder.id} (${holder.state}) holds it; to delete the job and free its key, run: holdfast jobs delete ${holder.id}${on}`;
      context.output.result({ key, status }, (writer) => writer.line(`${key} ${result}`));
    }),
});

export const keysCommand: Command = group({ name: "keys", summary: "Free unique keys.", commands: [free] });
