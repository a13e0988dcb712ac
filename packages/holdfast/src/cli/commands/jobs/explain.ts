import { command, type Command } from "../../parse/command.js";
import { CONNECTION_FLAGS, withAdmin } from "../../store/admin-connection.js";
import type { ReasonResult } from "../../../admin/contract/api-types.js";
import { connectionFlags } from "../../store/open.js";
import { paint } from "../../ui/style.js";
import { ID } from "./show.js";

export const explain: Command = command({
  name: "explain",
  summary: "Explain why a job does not run.",
  about: "Prints the decisive reason first, then others that also apply, each with what would change it.",
  arguments: { id: ID },
  flags: CONNECTION_FLAGS,
  run: (context, { flags, args }) =>
    withAdmin(context, flags, async (client) => {
      const explanation = await client.jobs.explain({ id: args.id });
      context.output.result(explanation, (writer) => {
        const on = connectionFlags(context.config, flags.url);
        const isKeyHeld = explanation.reasons.some(({ kind }) => kind === "key-held");
        for (const [index, reason] of explanation.reasons.entries()) {
          if (index > 0) writer.line("");
          writer.line(index === 0 ? paint(reason.text, "bold") : reason.text);
          const change = changeOf(args.id, reason, on, isKeyHeld);
          if (change !== null) writer.line(paint(`  ${change}`, "gray"));
        }
      });
    }),
});

/** What would change it: a command if there is one. `on`: the flags that name the store or server. */
export function changeOf(
  id: string,
  { kind, change, queue, until }: ReasonResult,
  on: string,
  isKeyHeld = false,
): string | null {
  switch (kind) {
    case "completed":
      return `To enqueue a copy, run: holdfast jobs rerun ${id}${on}`;
    case "dead":
    case "cancelled":
      // The reason after it says how its unique key becomes free.
      if (isKeyHeld) return change;
      return `To run it again, run: holdfast jobs retry ${id}${on}`;
    case "expired":
      return `When it is dead, to run it without an expiry, run: holdfast jobs retry ${id}${on}`;
    case "leased":
      // Null if its cancellation was requested already, or for a caller with the role user.
      if (change === null) return null;
      // Its lease has ended, and its worker may be dead.
      if (until === null) return change;
      return `To stop it, run: holdfast jobs cancel ${id}${on}`;
    case "due-later":
    case "retry":
      return `To make it due now, run: holdfast jobs promote ${id}${on}`;
    case "ahead":
      // The role user may not change priorities.
      if (change === null) return null;
      return `Start more workers, or move it up: holdfast jobs update ${id} --set-priority 10${on}`;
    case "paused":
      return queue === undefined ? change : `To resume, run: holdfast queues resume ${queue ?? "--all"}${on}`;
    default:
      return change;
  }
}
