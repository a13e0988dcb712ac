import { setTimeout as sleep } from "node:timers/promises";
import type { AdminClient } from "../../../admin/contract/client.js";
import type { JobConditions, OperationResult } from "../../../admin/contract/api-types.js";
import { command, YES, type Command, type Context } from "../../parse/command.js";
import { UsageError, CommandError } from "../../errors.js";
import type { Output } from "../../ui/output.js";
import { CONNECTION_FLAGS, withAdmin } from "../../store/admin-connection.js";
import { countOf, jobs as jobsText } from "../../ui/format.js";
import { conditionsOf, FILTER, isSearch, type GivenFilter } from "./filter.js";
import { hintIfNothingMatched, ID_NAMES } from "./filter-hints.js";

export const IDS: {
  readonly kind: "text";
  readonly repeated: true;
  readonly optional: true;
  readonly description: string;
} = {
  kind: "text",
  repeated: true,
  optional: true,
  description: "Job ids. Without ids, flags select the jobs.",
};

/** The jobs that a command changes. */
export type Target = { ids: readonly string[] } | { filter: JobConditions };

/** The jobs of the given ids, or of the flags. */
export function targetOf(ids: readonly string[], flags: GivenFilter): Target {
  const filter = conditionsOf(flags);
  const isFilter = Object.keys(filter).length > 0;
  if (ids.length === 0 && !isFilter)
    throw new UsageError("no jobs selected", "give job ids, or flags such as --state dead");
  if (ids.length > 0 && isFilter)
    throw new UsageError("job ids and filter flags cannot be combined", "give one of them");
  return isFilter ? { filter } : { ids };
}

/** A change of one job, or of several. */
export interface Change {
  one: (client: AdminClient, id: string) => Promise<{ status: string }>;
  many: (client: AdminClient, target: Target) => Promise<OperationResult>;
  /** What happened to the jobs. */
  done: string;
  /** Why some of the jobs may not have been changed. */
  skipped: string;
  /** The flags of the command, for hints. */
  flags?: GivenFilter;
}

/** Changes the jobs and prints the result. */
export async function changeJobs(
  context: Context,
  client: AdminClient,
  target: Target,
  { one, many, done, skipped, flags }: Change,
): Promise<void> {
  const [id] = "ids" in target ? target.ids : [];
  if (id === undefined || ("ids" in target && target.ids.length > 1)) {
    const searches = "filter" in target && isSearch(target.filter);
    const summary = { done, skipped: searches ? null : skipped };
    const { examined, changed } = await follow(context, client, await many(client, target), summary);
    if (flags !== undefined) hintIfNothingMatched(context, flags, searches ? changed : examined);
    return;
  }
  const { status } = await one(client, id);
  const what = status === "requested" ? "cancellation requested" : done;
  context.output.result({ id, status }, (writer) => writer.line(`${id} ${what}`));
}

/** A command that changes one job, several, or all that match a filter. */
export function bulkCommand(
  name: string,
  summary: string,
  { confirmation, examples, ...change }: Change & { confirmation?: string; examples: Command["examples"] },
): Command {
  return command({
    name,
    summary,
    about: "Takes one or more job ids, or flags that select jobs.",
    arguments: { id: IDS },
    flags: { ...FILTER, ...(confirmation !== undefined && { yes: YES }), ...CONNECTION_FLAGS },
    examples,
    async run(context, { flags, args }) {
      const target = targetOf(args.id, flags as unknown as GivenFilter);
      if (confirmation !== undefined) {
        const what = "filter" in target ? "all matching jobs" : jobsText(target.ids.length);
        await context.confirm(`${confirmation} ${what}?`, (flags as { yes?: boolean }).yes === true);
      }
      const { url, token } = flags as { url: string | undefined; token: string | undefined };
      await withAdmin(context, { url, token, names: ID_NAMES }, (client) =>
        changeJobs(context, client, target, { ...change, flags }),
      );
    },
  });
}

const POLL_MS = 200;
// Ids in one line.
const MAX_NAMED = 5;

interface Summary {
  readonly done: string;
  /** Null: jobs that were not changed did not match the input. */
  readonly skipped: string | null;
}

/** Shows the progress of an operation until it ends. */
export async function follow(
  context: Context,
  client: AdminClient,
  started: OperationResult,
  summary: Summary,
): Promise<OperationResult> {
  const { output, signal } = context;
  const { id } = started;
  const progress = output.progress(summary.done, started.total);
  let operation = started;
  while (operation.state === "running") {
    await sleep(POLL_MS, null, { signal }).catch(() => {});
    const current = signal.aborted ? null : await client.operations.get({ id }).catch(unlessAborted(signal));
    // After Ctrl-C: jobs that were changed stay changed, the others are left as they are.
    operation = current ?? (await client.operations.stop({ id }));
    progress.update(operation.examined, operation.total ?? undefined);
  }
  progress.hide();
  if (operation.state === "failed")
    throw new CommandError(`stopped after ${jobsText(operation.changed)}: ${operation.error}`);
  printSummary(output, operation, summary);
  return operation;
}

function printSummary(output: Output, operation: OperationResult, { done, skipped }: Summary): void {
  const { changed, examined, state } = operation;
  // Missing in the result of an older server.
  const { requested = 0, unchanged = [], reasons = {} } = operation as Partial<OperationResult>;
  const hasReasons = Object.keys(reasons).length > 0;
  const ids = hasReasons ? [] : unchanged.slice(0, MAX_NAMED);
  const rest = examined - changed - unchanged.length;
  const named = ids.length === 0 ? "" : `: ${ids.join(", ")}${ids.length < examined - changed ? ", …" : ""}`;
  const [count, why] =
    skipped === null
      ? [jobsText(changed - requested), `; ${countOf(examined)} examined`]
      : changed < examined
        ? [`${countOf(changed - requested)} of ${jobsText(examined)}`, `; ${skipped}${named}`]
        : [jobsText(changed - requested), ""];
  const parts = [
    ...(requested === examined && requested > 0 ? [] : [`${count} ${done}`]),
    ...(requested === 0
      ? []
      : [`cancellation requested for ${countOf(requested)} running ${requested === 1 ? "job" : "jobs"}`]),
    ...(state === "stopped" ? ["then stopped"] : []),
  ];
  output.result(operation, (writer) => {
    writer.line(`${parts.join(", ")}${why}`);
    if (!hasReasons) return;
    for (const id of unchanged) writer.line(`  ${id}: ${reasons[id] ?? "not changed"}`);
    if (rest > 0) writer.line(`  and ${countOf(rest)} more`);
  });
}

/** A request in flight at Ctrl-C has no response. */
function unlessAborted(signal: AbortSignal): (error: unknown) => null {
  return (error) => {
    if (!signal.aborted) throw error;
    return null;
  };
}
