import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, posix } from "node:path";
import { holdfast, Metrics } from "holdfast";
import { callOf, problemOf } from "./commands.js";
import type { Databases } from "./databases.js";
import { readDocument, ROOT, type Block, type Link } from "./documents.js";
import { readConfig } from "../../packages/holdfast/dist/config/index.js";
import { runCommands, runSql, type Programs } from "./programs.js";
import { asksForTable, type Tables } from "./tables.js";

const PROGRAM_MS = 20_000;

/** What a block is checked against. `next` is the block after it. Without `databases` there is no PostgreSQL, without `tables` no DynamoDB. */
interface Surroundings {
  programs: Programs;
  next: Block | undefined;
  /** The block before it: the file that commands find. */
  previous?: Block | undefined;
  databases?: Databases;
  tables?: Tables;
  limitMs?: number;
}

/** How each language is checked. A block of any other could rot unseen. */
const CHECKS: Readonly<
  Record<string, { title: string; check(block: Block, around: Surroundings): void | Promise<void> }>
> = {
  ts: { title: "ts compiles and runs", check: checkProgram },
  sh: { title: "sh has commands that exist", check: checkShell },
  toml: { title: "toml is a configuration", check: checkConfig },
  json: { title: "json can be parsed", check: ({ text }) => void JSON.parse(text) },
  yaml: { title: "yaml names metrics that there are", check: checkRules },
  sql: { title: "sql runs on a migrated database", check: checkSql },
  text: { title: "text is free", check: () => {} },
};

export function titleOf({ document, line, language }: Block): string {
  return `${document}:${line} ${CHECKS[language]?.title ?? "is in a language that is checked"}`;
}

export async function checkBlock(block: Block, around: Surroundings): Promise<void> {
  const known = CHECKS[block.language];
  if (known === undefined) {
    throw new Error(`the language "${block.language}" is none of ${Object.keys(CHECKS).join(", ")}`);
  }
  if (block.showsOutput && !["ts", "sh"].includes(block.language)) {
    throw new Error("<!-- output --> belongs before a ts or sh block; the text block after that is its output");
  }
  await known.check(block, around);
}

async function checkProgram(block: Block, { programs, next, databases, tables, limitMs }: Surroundings): Promise<void> {
  const errors = programs.errorsOf(block);
  if (errors.length > 0) throw new Error(errors.join("\n"));
  // A program that reads the address of a database or table gets its own.
  const asks = databases !== undefined && block.text.includes("DATABASE_URL");
  const variables = {
    ...(asks && { DATABASE_URL: await databases.empty() }),
    ...(tables !== undefined && asksForTable(block) && tables.variables()),
  };
  const output = await programs.run(block, limitMs ?? PROGRAM_MS, variables);
  if (block.showsOutput) mustPrint(output, next);
}

/** Every line of the block is in the output, in its order. */
function mustPrint(output: string, next: Block | undefined): void {
  if (next?.language !== "text") throw new Error("no text block with its output follows");
  let from = 0;
  for (const [index, line] of next.text.split("\n").entries()) {
    const at = output.indexOf(line.trim(), from);
    if (at < 0) throw new Error(`${next.document}:${next.line + index}: "${line}" is not printed; this is:\n${output}`);
    from = at + line.trim().length;
  }
}

/** SQL of a document about PostgreSQL runs there, any other on SQLite. */
async function checkSql(block: Block, { databases }: Surroundings): Promise<void> {
  if (!/(?:^|\/)postgres[^/]*$/.test(block.document)) return runSql(block);
  if (databases === undefined) throw new Error("there is no PostgreSQL to run it on");
  await databases.withJobs((client) => client.query(block.text));
}

/** With `<!-- output -->` it is run, where there is nothing but calls of `holdfast`. */
async function checkShell(block: Block, { previous, next }: Surroundings): Promise<void> {
  const lines = block.text.split("\n").filter((line) => line.trim() !== "");
  const problems = lines.map(problemOf).filter((problem) => problem !== null);
  if (problems.length > 0) throw new Error(problems.join("\n"));
  if (!block.showsOutput) return;
  const calls = lines.map(callOf).filter((call) => call !== null);
  if (calls.length < lines.length) throw new Error("only calls of holdfast can be run for their output");
  mustPrint(await runCommands(block, calls, previous?.language === "toml" ? previous.text : ""), next);
}

async function checkConfig({ text }: Block): Promise<void> {
  const cwd = await mkdtemp(join(tmpdir(), "holdfast-docs-"));
  try {
    await writeFile(join(cwd, "holdfast.toml"), text);
    readConfig({ cwd, env: {} });
  } finally {
    await rm(cwd, { recursive: true, force: true });
  }
}

/** Rules for Prometheus. What it does not know it takes for nothing, in silence. */
async function checkRules({ text }: Block): Promise<void> {
  const hf = await holdfast({ store: "sqlite::memory:" });
  const metrics = new Metrics(hf);
  const kinds = [...(await metrics.text()).matchAll(/^# TYPE (\w+) (\w+)$/gm)];
  metrics.stop();
  await hf.close();
  const known = new Set(
    kinds.flatMap(([, name = "", kind]) =>
      kind === "histogram" ? ["bucket", "sum", "count"].map((part) => `${name}_${part}`) : [name],
    ),
  );
  const named = [...text.matchAll(/\bholdfast_\w+/g)].map(([name]) => name);
  if (named.length === 0) throw new Error("it names no metric");
  const wrong = named.filter((name) => !known.has(name));
  if (wrong.length > 0) throw new Error(`there is no metric ${wrong.join(", ")}; there are ${[...known].join(", ")}`);
}

export function isRelative({ target }: Link): boolean {
  return !/^[a-z][a-z+.-]*:/i.test(target);
}

/** The document that a link of another leads to. */
export function linkedFrom(path: string, target: string): string {
  const [file = ""] = target.split("#");
  return file === "" ? path : posix.join(dirname(path), decodeURIComponent(file));
}

/** A relative link of the document `path` leads to a file that exists, and to one of its headings. */
export function checkLink(path: string, { target }: Link): void {
  const to = linkedFrom(path, target);
  const anchor = target.split("#")[1];
  if (!existsSync(join(ROOT, to))) throw new Error(`there is no ${to}`);
  if (anchor === undefined) return;
  if (!to.endsWith(".md")) throw new Error(`${to} has no headings`);
  const { anchors } = readDocument(to);
  if (!anchors.has(anchor)) throw new Error(`${to} has no heading #${anchor}; it has ${[...anchors].join(", ")}`);
}
