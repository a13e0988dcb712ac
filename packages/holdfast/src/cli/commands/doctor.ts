import type { ErrorGroupResult, StatsResult } from "../../admin/contract/api-types.js";
import type { AdminClient } from "../../admin/contract/client.js";
import { didYouMean, hideSecret } from "../../config/index.js";
import { isLive } from "../../live-worker.js";
import { isCut, OTHER } from "../../observe/names.js";
import type { PendingMigration, Store } from "../../store.js";
import type { Finding as StoreFinding, PostgresStore } from "../../stores/postgres/index.js";
import { connectionFlags, describeStoreSource, warnIfUrlIgnored, withConfiguredStore } from "../store/open.js";
import { pendingMigrationsOf, schemaProblemOf, type SchemaProblem } from "../store/schema-check.js";
import { streamText } from "../store/stream-state.js";
import { command, STORE_FLAG, type Command } from "../parse/command.js";
import { changeOf } from "./jobs/explain.js";
import { checkLastHour, lastDay } from "./last-hour.js";
import { knownTypes } from "../module/known-types.js";
import { withAdmin } from "../store/admin-connection.js";
import { countOf, jobs, lengthOf } from "../ui/format.js";
import { paint, type Colour } from "../ui/style.js";

/** A finding of the store's own checks, or of a check of this command. */
export type Finding = Omit<StoreFinding, "check"> & { check: string };
const COLOURS: Readonly<Record<Finding["level"], Colour>> = { ok: "green", warning: "yellow", problem: "red" };
const MAX_TYPES = 5;
const LATE_MS = 60_000;

export const doctorCommand: Command = command({
  name: "doctor",
  summary: "Check for problems and suggest fixes. Exit code 1 if there is a problem.",
  about:
    "Reads the store directly, never a server, and changes nothing. If the schema is out of date, only that is reported.",
  flags: { store: STORE_FLAG },
  async run(context) {
    warnIfUrlIgnored(context);
    const store = hideSecret(context.config.values.store);
    const on = connectionFlags(context.config);
    const { own, isCurrent } = await withConfiguredStore(context, "read", async (opened) => {
      const pending = await pendingMigrationsOf(opened);
      const findings: Finding[] =
        "doctor" in opened
          ? await (opened as PostgresStore).doctor()
          : [checkSchema(schemaProblemOf(context.config, pending)), ...(await checkStream(opened, pending))];
      return { own: findings, isCurrent: pending.length === 0 };
    });
    const general = !isCurrent
      ? []
      : await withAdmin(context, { url: null, token: undefined }, async (client) => {
          const now = Date.now();
          const [stats, { workers }, { queues, paused: allPaused }, { groups }, history] = await Promise.all([
            client.jobs.stats(),
            client.workers.list(),
            client.queues.list(),
            client.errors.list({ limit: 1 }),
            lastDay(client, now),
          ]);
          const live = workers.filter((worker) => isLive(worker, now));
          return [
            checkWorkers(live.length, stats.states.pending + stats.states.failed, on),
            ...checkTypes(stats, knownTypes(workers, now), on),
            ...(await checkAge(client, { stats, allPaused, now }, on)),
            ...checkLastHour(history, on),
            ...checkErrors(groups[0], now, on),
            checkDead(stats.states.dead, on),
            ...(allPaused ? [allPausedFinding(on)] : []),
            ...queues
              .filter(({ paused }) => paused)
              .map(({ queue, pausedAt, pausedBy }): Finding => ({
                check: "paused queue",
                level: "warning",
                found: `The queue ${queue} was paused${pausedBy === null ? "" : ` by ${pausedBy}`}${pausedAt === null ? "" : ` ${lengthOf(Math.max(0, now - Date.parse(pausedAt)))} ago`}.`,
                advice: `To resume it, run: holdfast queues resume ${queue}${on}`,
              })),
          ];
        });
    const findings = [...general, ...own];
    context.output.result({ store, findings }, (writer) => {
      writer.line(paint("store    ", "gray"), `${store} (${describeStoreSource(context.config)})`);
      for (const { check, level, found, advice } of findings) {
        writer.line(paint(level.padEnd(9), COLOURS[level]), `${check}: ${found}`);
        if (advice !== null && level !== "ok") writer.line(paint(`         ${advice}`, "gray"));
      }
    });
    return findings.some(({ level }) => level === "problem") ? 1 : 0;
  },
});

function allPausedFinding(on: string): Finding {
  return {
    check: "paused queues",
    level: "warning",
    found: "All queues are paused.",
    advice: `To resume them, run: holdfast queues resume --all${on}`,
  };
}

function checkSchema(problem: SchemaProblem | null): Finding {
  if (problem === null) return { check: "schema", level: "ok", found: "Up to date.", advice: null };
  const [found, advice] = [problem.message, problem.hint].map(
    (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`,
  );
  return { check: "schema", level: "problem", found: found ?? "", advice: advice ?? null };
}

/** `hf.follow` works with and without a stream. */
async function checkStream(store: Store, pending: readonly PendingMigration[]): Promise<Finding[]> {
  const found = pending.length > 0 ? null : await streamText(store);
  return found === null ? [] : [{ check: "stream", level: "ok", found, advice: null }];
}

function checkWorkers(live: number, waiting: number, on: string): Finding {
  const found =
    live === 0 ? `No live worker, and ${waiting === 0 ? "no jobs" : jobs(waiting)} waiting.` : `${countOf(live)} live.`;
  const level = live > 0 ? "ok" : waiting === 0 ? "warning" : "problem";
  const advice = live > 0 ? null : `To start one, run: holdfast worker <module>${on}`;
  return { check: "workers", level, found, advice };
}

/** Jobs whose type is misspelled wait like any other. This finds them. */
function checkTypes({ types }: StatsResult, known: readonly string[] | null, on: string): Finding[] {
  if (known === null) return [];
  const waiting = Object.entries(types)
    .map(([type, { pending, failed }]) => ({ type, count: pending + failed }))
    // The combined count of further types names no type.
    .filter(({ type, count }) => count > 0 && !known.includes(type) && !(type === OTHER && isCut(types)));
  if (waiting.length === 0) return [];
  const total = waiting.reduce((sum, { count }) => sum + count, 0);
  const names = waiting
    .slice(0, MAX_TYPES)
    .map(({ type }) => `${type}${didYouMean(type, known).replace(/^; (.+)$/, " ($1)")}`);
  const more = waiting.length > MAX_TYPES ? `, and ${countOf(waiting.length - MAX_TYPES)} more` : "";
  const kinds = waiting.length === 1 ? "a type" : `${countOf(waiting.length)} types`;
  return [
    {
      check: "unknown types",
      level: "warning",
      found: `${jobs(total)} waiting, of ${kinds} that no live worker handles: ${names.join(", ")}${more}.`,
      advice: `Start a worker that handles them. If a name is a typo, run: holdfast jobs cancel --type <type>${on}`,
    },
  ];
}

/** If jobs wait too long, one that has been due for long is explained. */
async function checkAge(
  client: AdminClient,
  { stats, allPaused, now }: { stats: StatsResult; allPaused: boolean; now: number },
  on: string,
): Promise<Finding[]> {
  const { oldestDueMs, oldestDue } = stats;
  const isLate = oldestDueMs !== null && oldestDueMs > LATE_MS;
  const age: Finding = {
    check: "oldest due job",
    level: isLate ? "warning" : "ok",
    found: `${oldestDueMs === null ? "None." : `Waiting for ${lengthOf(oldestDueMs)}.`}${allPaused ? " Jobs in paused queues are not counted." : ""}`,
    advice: isLate ? "Raise jobs.concurrency, or start more workers." : null,
  };
  const queue = oldestDue[0]?.queue;
  if (!isLate || queue === undefined) return [age];
  const oldest = await findDue(client, queue, now);
  if (oldest === null) return [age];
  const { reasons } = await client.jobs.explain({ id: oldest });
  const [reason] = reasons;
  if (reason === undefined || reason.kind === "due-later") return [age];
  const found = `Job ${oldest} waits. ${reason.text}`;
  return [age, { check: "why jobs wait", level: "warning", found, advice: changeOf(oldest, reason, on) }];
}

const PAGE = 200;
// Any number of jobs that are not due yet may be older. Reading more of them would cost much, and the age is reported anyway.
const MAX_PAGES = 5;

/** The job of a queue that has been due for longest, among the first that have due ones. */
async function findDue(client: AdminClient, queue: string, now: number): Promise<string | null> {
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page++) {
    const listed = await client.jobs.list({
      queue: [queue],
      state: ["pending", "failed"],
      order: "oldest",
      limit: PAGE,
      ...(cursor !== undefined && { cursor }),
    });
    const due = listed.jobs.filter(({ dueAt }) => dueAt !== null && Date.parse(dueAt) <= now);
    const [first] = due.toSorted((a, b) => Date.parse(a.dueAt ?? "") - Date.parse(b.dueAt ?? ""));
    if (first !== undefined) return first.id;
    if (listed.cursor === null) return null;
    ({ cursor } = listed);
  }
  return null;
}

const RECENT_MS = 3_600_000;

/** The group of errors that occurred last. */
function checkErrors(group: ErrorGroupResult | undefined, now: number, on: string): Finding[] {
  if (group === undefined || now - Date.parse(group.lastAt) > RECENT_MS) return [];
  const what = `${group.type === null ? "" : `${group.type}: `}${group.message}`;
  return [
    {
      check: "errors",
      level: "warning",
      found: `${countOf(group.count)} failed ${group.count === 1 ? "attempt" : "attempts"}, the last ${lengthOf(Math.max(0, now - Date.parse(group.lastAt)))} ago: ${what}`,
      advice: `To list the groups of errors, run: holdfast errors${on}`,
    },
  ];
}

function checkDead(dead: number, on: string): Finding {
  return {
    check: "dead jobs",
    level: dead === 0 ? "ok" : "warning",
    found: dead === 0 ? "None." : `${countOf(dead)}.`,
    advice:
      dead === 0
        ? null
        : `To list them, run: holdfast jobs list --state dead${on}; to retry them, run: holdfast jobs retry-dead${on}`,
  };
}
