import { setTimeout as sleep } from "node:timers/promises";
import type { TransitionResult } from "../../../admin/contract/api-types.js";
import { STATE_NAMES } from "../../../job/state.js";
import { command, type Command } from "../../parse/command.js";
import { CONNECTION_FLAGS, withAdmin } from "../../store/admin-connection.js";
import { clockOf, stateOf } from "../../ui/format.js";

const POLL_MS = 500;
const PAGE = 1_000;

export const follow: Command = command({
  name: "follow",
  summary: "Print the changes of state of jobs in all processes, until Ctrl-C.",
  about:
    "With --json, each change is one line, with a cursor that --cursor continues after. Cursors are valid for 10 minutes.",
  flags: {
    type: { kind: "text", repeated: true, description: "Only jobs of this type." },
    queue: { kind: "text", repeated: true, description: "Only jobs in this queue." },
    state: { kind: "choice", choices: STATE_NAMES, repeated: true, description: "Only changes to this state." },
    cursor: { kind: "text", description: "Continue after this cursor." },
    ...CONNECTION_FLAGS,
  },
  examples: [
    { line: "jobs follow", description: "All jobs." },
    { line: "jobs follow --state dead --json", description: "Dead jobs, for a script." },
  ],
  run(context, { flags }) {
    const { output } = context;
    const stop = AbortSignal.any([context.signal, output.stdoutClosed]);
    const conditions = {
      ...(flags.type.length > 0 && { type: flags.type }),
      ...(flags.queue.length > 0 && { queue: flags.queue }),
      ...(flags.state.length > 0 && { state: flags.state }),
    };
    return withAdmin(context, flags, async (client) => {
      let { cursor } = flags;
      while (!stop.aborted) {
        const page: TransitionResult = await client.transitions.list({
          ...conditions,
          limit: PAGE,
          ...(cursor !== undefined && { cursor }),
        });
        const last = page.transitions.length - 1;
        for (const [index, { id, type, queue, to, at }] of page.transitions.entries()) {
          // The cursor of the page is after its last change. A script that stops before that must get the others again.
          const here = index === last ? page.cursor : cursor;
          output.event({ id, type, queue, to, at, cursor: here }, (writer) =>
            writer.line(`${clockOf(at)}  `, stateOf(to, to.padEnd(9)), `  ${id}  ${type} (${queue})`),
          );
        }
        cursor = page.cursor;
        if (page.transitions.length === 0) await sleep(POLL_MS, null, { signal: stop }).catch(() => {});
      }
    });
  },
});
