import { AdminError, type AdminClient } from "../../../admin/contract/client.js";
import type { CountResult, JobDetail, StepsResult } from "../../../admin/contract/api-types.js";
import type { AttemptError } from "../../../job/job.js";
import { command, type Command } from "../../parse/command.js";
import { CONNECTION_FLAGS, withAdmin } from "../../store/admin-connection.js";
import { connectionFlags } from "../../store/open.js";
import { agoOf, attemptOf, clockOf, countOf, errorOf, lengthOf, stateOf } from "../../ui/format.js";
import type { TextWriter } from "../../ui/output.js";
import { paint } from "../../ui/style.js";
import { stepLines } from "./step-lines.js";

export const ID: { readonly kind: "text"; readonly description: string } = { kind: "text", description: "Job id." };

const MAX_CHILDREN = 1_000;

export const show: Command = command({
  name: "show",
  summary: "Show a job with its input, output, attempts and log.",
  arguments: { id: ID },
  flags: CONNECTION_FLAGS,
  run: (context, { flags, args }) =>
    withAdmin(context, { ...flags, names: { id: "<id>" } }, async (client) => {
      const { id } = args;
      const job = await client.jobs.get({ id });
      const children = await childrenOf(client, id, connectionFlags(context.config, flags.url));
      const steps = await stepsOf(client, job);
      context.output.result({ ...job, steps: steps?.steps ?? null }, (writer) =>
        showJob(writer, job, { children, steps }),
      );
    }),
});

/** How many jobs the handler enqueued, and how to list them; null if none. `on`: the flags that name the store or server. */
async function childrenOf(client: AdminClient, id: string, on: string): Promise<string | null> {
  const { count, exact }: CountResult = await client.jobs.count({ parent: id, atMost: MAX_CHILDREN });
  if (count === 0) return null;
  return `${exact ? "" : "at least "}${countOf(count)}; to list them, run: holdfast jobs list --parent ${id}${on}`;
}

/** Null if the caller may not see them. A job that was never claimed has none. */
async function stepsOf(client: AdminClient, { id, fence }: JobDetail): Promise<StepsResult | null> {
  if (fence === 0) return { steps: [], total: 0 };
  try {
    return await client.jobs.steps({ id });
  } catch (error) {
    // A user's token, or a server of an earlier version.
    if (error instanceof AdminError && (error.status === 403 || error.status === 404)) return null;
    throw error;
  }
}

function showJob(
  writer: TextWriter,
  job: JobDetail,
  { children, steps }: { children: string | null; steps: StepsResult | null },
): void {
  const now = Date.now();
  const times = (
    ["createdAt", "runAt", "dueAt", "claimedAt", "startedAt", "finishedAt", "expiresAt", "cancelRequestedAt"] as const
  ).filter((name) => job[name] !== null);
  writer.fields([
    ["id", job.id],
    ["type", job.type],
    ["state", stateOf(job.state)],
    ["queue", `${job.queue}, priority ${job.priority}`],
    ["attempt", attemptOf(job)],
    ...(job.user === null ? [] : [["user", job.user] as const]),
    ...(job.key === null ? [] : [["key", job.key] as const]),
    ...(job.tags.length === 0 ? [] : [["tags", job.tags.join(", ")] as const]),
    ...(job.schedule === null
      ? []
      : [["schedule", `${job.schedule.name}, slot ${clockOf(job.schedule.slot)}`] as const]),
    ...(job.parent === null ? [] : [["parent", job.parent] as const]),
    ...(children === null ? [] : [["children", children] as const]),
    ...(job.timeoutMs === null ? [] : [["timeout", job.timeoutMs === 0 ? "none" : lengthOf(job.timeoutMs)] as const]),
    ...(job.worker === null ? [] : [["worker", job.worker] as const]),
    ...(job.trace?.["traceparent"] === undefined ? [] : [["trace", job.trace["traceparent"]] as const]),
    ...(job.progress === null ? [] : [["progress", progressOf(job.progress)] as const]),
    ...times.map((name) => [name, `${clockOf(job[name])} (`, agoOf(job[name], now), ")"] as const),
    ...(errorOf(job) === "" ? [] : [["error", paint(errorOf(job), "red")] as const]),
  ]);
  const part = (title: string, text: string): void => {
    writer.line("");
    writer.line(paint(title, "bold"));
    writer.block(text);
  };
  part("Input", JSON.stringify(job.input, null, 2) ?? "");
  if (steps !== null && steps.total > 0) {
    writer.line("");
    writer.line(paint("Steps", "bold"));
    for (const line of stepLines(steps, now)) writer.line("  ", ...line);
  }
  if (job.state === "completed") part("Output", JSON.stringify(job.output, null, 2) ?? "");
  for (const { attempt, fence, end, endedAt, startedAt, worker, error } of job.attempts) {
    const tookMs = startedAt === null ? null : Date.parse(endedAt) - Date.parse(startedAt);
    const where = [tookMs === null ? null : `after ${lengthOf(tookMs)}`, worker === null ? null : `worker ${worker}`];
    const place = where.filter((text) => text !== null).join(", ");
    const lines = [...(place === "" ? [] : [place]), ...(error === null ? [] : errorLines(error))];
    part(
      `Attempt ${attempt} ${ENDS[end]} ${clockOf(endedAt)}${fence === null ? "" : `, fence ${fence}`}`,
      lines.join("\n"),
    );
  }
  if (job.log.length > 0) part("Log", job.log.map(({ at, line }) => `${clockOf(at)}  ${line}`).join("\n"));
}

const ENDS: Readonly<Record<JobDetail["attempts"][number]["end"], string>> = {
  completed: "completed",
  failed: "failed",
  cancelled: "was cancelled",
  expired: "lost its lease",
  released: "was released",
};

function progressOf({ fraction, note, data }: NonNullable<JobDetail["progress"]>): string {
  const parts = [`${Math.round(fraction * 100)} %`, note, data === null ? null : JSON.stringify(data)];
  return parts.filter((text) => text !== null).join(", ");
}

/** An error with its data and causes, as Node prints an uncaught one. */
function errorLines({ stack, message, data, cause }: AttemptError): string[] {
  return [
    stack ?? message,
    ...(data === null ? [] : [`data: ${JSON.stringify(data, null, 2)}`]),
    ...(cause === null ? [] : errorLines(cause).map((line, index) => (index === 0 ? `caused by: ${line}` : line))),
  ];
}
