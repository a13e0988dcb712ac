import type { FreeKeyResult } from "../../store.js";
import { command, group, type Command } from "../parse/command.js";
import { CONNECTION_FLAGS, withAdmin } from "../store/admin-connection.js";

const RESULTS: Readonly<Record<FreeKeyResult, string>> = {
  freed: "freed",
  held: "not freed: its job exists",
  missing: "is not held",
};

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
      context.output.result({ key, status }, (writer) => writer.line(`${key} ${RESULTS[status]}`));
    }),
});

export const keysCommand: Command = group({ name: "keys", summary: "Free unique keys.", commands: [free] });
