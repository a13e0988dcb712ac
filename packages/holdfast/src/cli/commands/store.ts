import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { toHoldfastOptions } from "../../config/index.js";
import type { Store } from "../../store.js";
import type { DynamoStore } from "../../stores/dynamodb/index.js";
import type { LegacyImportOptions, PostgresStore } from "../../stores/postgres/index.js";
import { command, keyFlag, YES, type Command, type Context } from "../command.js";
import { BadUsage, Failure } from "../failure.js";
import { reach } from "../reach.js";
import { countOf, jobs, lengthOf } from "../shown.js";
import { paint, type Colour } from "../style.js";

const STORE = { store: keyFlag("store", { placeholder: "url" }) };

/** The store itself, not migrated; closed at the end. */
async function withBareStore<Answer>({ config }: Context, use: (store: Store) => Promise<Answer>): Promise<Answer> {
  const { openStore } = await import("../../engine/open-store.js");
  const store = await openStore(toHoldfastOptions(config).store);
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

export const migrateCommand: Command = command({
  name: "migrate",
  summary: "Brings the database to this version's schema.",
  about: "Workers do so by themselves when they start. Safe to repeat, and while workers of the version before run.",
  flags: {
    print: { kind: "switch", says: "Print what it would take, and do nothing: SQL, or a template for DynamoDB." },
    check: { kind: "switch", says: "Only say whether the schema is this version's; exit code 1 if not." },
    ...STORE,
  },
  async run(context, { flags }) {
    const { output } = context;
    if (flags.print && flags.check) throw new BadUsage("--print and --check do not go together");
    return withBareStore(context, async (store) => {
      if (flags.print) {
        const text = printed(store);
        output.answer({ text }, (page) => page.block(text.trimEnd()));
        return 0;
      }
      if (flags.check) {
        const problem = await store.queues().then(
          () => null,
          (error: unknown) => (error as Error).message,
        );
        output.answer({ current: problem === null, problem }, (page) =>
          page.line(problem === null ? "The schema is this version's." : `It is not: ${problem}`),
        );
        return problem === null ? 0 : 1;
      }
      await store.migrate();
      output.answer({ migrated: true }, (page) => page.line("The schema is this version's."));
      return 0;
    });
  },
});

function printed(store: Store): string {
  if ("migrations" in store) return (store as PostgresStore).migrations();
  if ("cloudFormation" in store) return (store as DynamoStore).cloudFormation();
  throw new Failure("a SQLite file is migrated when it is opened; there is nothing to print");
}

export const importCommand: Command = command({
  name: "import",
  summary: "Makes jobs of the rows of an old table (PostgreSQL).",
  about:
    "What becomes of which column stands in a JSON file, as importLegacy of the API takes it: { table, type, map, … }. Without --yes it is a dry run.",
  arguments: { file: { kind: "text", placeholder: "path", complete: "files", says: "The JSON file." } },
  flags: { yes: YES, ...STORE },
  async run(context, { flags, args }) {
    const text = await readFile(resolve(context.cwd, args.file), "utf8").catch((error: unknown) => {
      throw new Failure(`${args.file} cannot be read: ${(error as Error).message}`, { cause: error });
    });
    const options = parse(text, args.file);
    await withBareStore(context, async (store) => {
      if (!("importLegacy" in store)) throw new Failure("old tables are imported on PostgreSQL only");
      await store.migrate();
      const progress = context.output.progress("rows", null);
      const answer = await (store as PostgresStore).importLegacy({
        ...options,
        dryRun: !flags.yes,
        onProgress: ({ done, total }) => progress.update(done, total),
      });
      progress.hide();
      context.output.answer(answer, (page) => page.block(JSON.stringify(answer, null, 2)));
      if (!flags.yes) context.output.note("This was a dry run; --yes does it.");
    });
  },
});

/** What it holds is checked by the import itself. */
function parse(text: string, file: string): LegacyImportOptions {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as LegacyImportOptions;
  } catch (error) {
    throw new Failure(`${file} is not JSON: ${(error as Error).message}`, { cause: error });
  }
  throw new Failure(`${file} holds no object`, { hint: "{ table, type, map, … }" });
}

interface Finding {
  check: string;
  level: "ok" | "warning" | "problem";
  found: string;
  advice: string | null;
}
const COLOURS: Readonly<Record<Finding["level"], Colour>> = { ok: "green", warning: "yellow", problem: "red" };
const LATE_MS = 60_000;

export const doctorCommand: Command = command({
  name: "doctor",
  summary: "Looks for what holds jobs up, and says what to do. Exit code 1 if there is a problem.",
  flags: STORE,
  async run(context) {
    const own = await withBareStore(context, async (store) => {
      await store.migrate();
      const findings: Finding[] = "doctor" in store ? await (store as PostgresStore).doctor() : [];
      return findings;
    });
    const general = await reach(context, { url: "", token: undefined }, async (client) => {
      const [stats, { workers }, { queues }] = await Promise.all([
        client.jobs.stats(),
        client.workers.list(),
        client.queues.list(),
      ]);
      return [
        checkWorkers(workers.filter(({ left }) => !left).length, stats.states.pending + stats.states.failed),
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
    context.output.answer({ findings }, (page) => {
      for (const { check, level, found, advice } of findings) {
        page.line(paint(level.padEnd(8), COLOURS[level]), `${check}: ${found}`);
        if (advice !== null && level !== "ok") page.line(paint(`         ${advice}`, "gray"));
      }
    });
    return findings.some(({ level }) => level === "problem") ? 1 : 0;
  },
});

function checkWorkers(live: number, waiting: number): Finding {
  const found = live === 0 ? `No worker is live, and ${jobs(waiting)} wait.` : `${countOf(live)} live.`;
  const level = live > 0 ? "ok" : waiting === 0 ? "warning" : "problem";
  return { check: "workers", level, found, advice: live > 0 ? null : "Start one: holdfast worker <module>." };
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
    found: dead === 0 ? "There are none." : `${jobs(dead)} were given up.`,
    advice: dead === 0 ? null : "holdfast jobs list --state dead shows them; holdfast jobs retry-dead runs them again.",
  };
}
