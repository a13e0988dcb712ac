import type { StatsResult } from "../../admin/contract/api-types.js";
import { didYouMean, hideSecret } from "../../config/index.js";
import { isLive } from "../../live-worker.js";
import { isCut, OTHER } from "../../observe/names.js";
import type { Finding as StoreFinding, PostgresStore } from "../../stores/postgres/index.js";
import { lackOf, pendingOf, sourceOfStore, tellStoreOnly, withBareStore, type Lack } from "../store/bare-store.js";
import { command, keyFlag, type Command } from "../parse/command.js";
import { knownTypes } from "../module/known-types.js";
import { reach } from "../store/admin-connection.js";
import { countOf, jobs, lengthOf } from "../ui/format.js";
import { paint, type Colour } from "../ui/style.js";

/** What the store's own doctor finds, and what is looked at here. */
type Finding = Omit<StoreFinding, "check"> & { check: string };
const COLOURS: Readonly<Record<Finding["level"], Colour>> = { ok: "green", warning: "yellow", problem: "red" };
const MOST_TYPES = 5;
const LATE_MS = 60_000;

export const doctorCommand: Command = command({
  name: "doctor",
  summary: "Looks for what holds jobs up, and says what to do. Exit code 1 if there is a problem.",
  about:
    "It looks at the store itself and asks no server, and changes nothing. Of a store whose schema is not this version's it tells that, and nothing of its jobs.",
  flags: { store: keyFlag("store", { placeholder: "url" }) },
  async run(context) {
    tellStoreOnly(context);
    const store = hideSecret(context.config.values.store);
    const { own, isCurrent } = await withBareStore(context, "look", async (opened) => {
      const pending = await pendingOf(opened);
      const findings: Finding[] =
        "doctor" in opened ? await (opened as PostgresStore).doctor() : [checkSchema(lackOf(context.config, pending))];
      return { own: findings, isCurrent: pending.length === 0 };
    });
    const general = !isCurrent
      ? []
      : await reach(context, { url: "", token: undefined }, async (client) => {
          const [stats, { workers }, { queues }] = await Promise.all([
            client.jobs.stats(),
            client.workers.list(),
            client.queues.list(),
          ]);
          const now = Date.now();
          const live = workers.filter((worker) => isLive(worker, now));
          return [
            checkWorkers(live.length, stats.states.pending + stats.states.failed),
            ...checkTypes(stats, knownTypes(workers, now)),
            checkAge(stats.oldestDueMs),
            checkDead(stats.states.dead),
            ...queues
              .filter(({ paused }) => paused)
              .map(({ queue }): Finding => ({
                check: "paused queue",
                level: "warning",
                found: `The queue ${queue} is paused.`,
                advice: `holdfast queues resume ${queue} lets workers take its jobs.`,
              })),
          ];
        });
    const findings = [...general, ...own];
    context.output.answer({ store, findings }, (page) => {
      page.line(paint("store    ", "gray"), `${store} (${sourceOfStore(context.config)})`);
      for (const { check, level, found, advice } of findings) {
        page.line(paint(level.padEnd(8), COLOURS[level]), `${check}: ${found}`);
        if (advice !== null && level !== "ok") page.line(paint(`         ${advice}`, "gray"));
      }
    });
    return findings.some(({ level }) => level === "problem") ? 1 : 0;
  },
});

function checkSchema(lack: Lack | null): Finding {
  if (lack === null) return { check: "schema", level: "ok", found: "It is this version's.", advice: null };
  const [found, advice] = [lack.says, lack.hint].map((text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`);
  return { check: "schema", level: "problem", found: found ?? "", advice: advice ?? null };
}

function checkWorkers(live: number, waiting: number): Finding {
  const found =
    live === 0
      ? `No worker is live, and ${jobs(waiting)} ${waiting === 1 ? "waits" : "wait"}.`
      : `${countOf(live)} live.`;
  const level = live > 0 ? "ok" : waiting === 0 ? "warning" : "problem";
  return { check: "workers", level, found, advice: live > 0 ? null : "Start one: holdfast worker <module>." };
}

/** A misspelt type looks like any job that waits. */
function checkTypes({ types }: StatsResult, known: readonly string[] | null): Finding[] {
  if (known === null) return [];
  const waiting = Object.entries(types)
    .map(([type, { pending, failed }]) => ({ type, count: pending + failed }))
    // Of the rest nobody can tell which they are.
    .filter(({ type, count }) => count > 0 && !known.includes(type) && !(type === OTHER && isCut(types)));
  if (waiting.length === 0) return [];
  const total = waiting.reduce((sum, { count }) => sum + count, 0);
  const names = waiting
    .slice(0, MOST_TYPES)
    .map(({ type }) => `${type}${didYouMean(type, known).replace(/^; (.+)$/, " ($1)")}`);
  const more = waiting.length > MOST_TYPES ? `, and ${countOf(waiting.length - MOST_TYPES)} more` : "";
  const kinds = waiting.length === 1 ? "a type" : `${countOf(waiting.length)} types`;
  return [
    {
      check: "unknown types",
      level: "warning",
      found: `${jobs(total)} of ${kinds} that no live worker knows: ${names.join(", ")}${more}.`,
      advice: "Start a worker whose module has it; or, if it is misspelt, holdfast jobs cancel --type <type>.",
    },
  ];
}

function checkAge(oldestDueMs: number | null): Finding {
  const isLate = oldestDueMs !== null && oldestDueMs > LATE_MS;
  return {
    check: "oldest due job",
    level: isLate ? "warning" : "ok",
    found: oldestDueMs === null ? "None waits." : `It has waited for ${lengthOf(oldestDueMs)}.`,
    advice: isLate ? "Raise jobs.concurrency, or start more workers." : null,
  };
}

function checkDead(dead: number): Finding {
  return {
    check: "dead jobs",
    level: dead === 0 ? "ok" : "warning",
    found: dead === 0 ? "There are none." : `${jobs(dead)} ${dead === 1 ? "was" : "were"} given up.`,
    advice: dead === 0 ? null : "holdfast jobs list --state dead shows them; holdfast jobs retry-dead runs them again.",
  };
}
