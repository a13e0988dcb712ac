import type { WorkerResult } from "../../admin/contract/api-types.js";
import { isLive } from "../../live-worker.js";
import { command, type Command } from "../parse/command.js";
import { CONNECTION_FLAGS, withAdmin } from "../store/admin-connection.js";
import { agoOf } from "../ui/format.js";
import { paint, type Part } from "../ui/style.js";

export const workersCommand: Command = command({
  name: "workers",
  summary: "List the workers of the last hour.",
  about:
    "A worker is shown as lost if it sent no heartbeat for a minute and did not shut down: it was killed or disconnected.",
  flags: CONNECTION_FLAGS,
  run: (context, { flags }) =>
    withAdmin(context, flags, async (client) => {
      const { workers } = await client.workers.list();
      context.output.result({ workers }, (writer) => {
        if (workers.length === 0) return writer.line("No workers in the last hour.");
        const now = Date.now();
        writer.table(
          [
            { title: "Worker", whole: true },
            { title: "Queues" },
            { title: "Running", align: "right" },
            { title: "Started" },
            { title: "Heartbeat" },
            { title: "State" },
          ],
          workers.map((worker): Part[] => [
            worker.id,
            worker.queues?.join(", ") ?? "all",
            isLive(worker, now) ? `${worker.running} of ${worker.concurrency}` : "–",
            agoOf(worker.startedAt, now),
            agoOf(worker.seenAt, now),
            stateOf(worker, now),
          ]),
        );
      });
    }),
});

function stateOf(worker: WorkerResult, now: number): Part {
  if (worker.left) return paint("stopped", "gray");
  if (!isLive(worker, now)) return paint("lost", "yellow");
  return worker.draining ? paint("draining", "yellow") : "live";
}
