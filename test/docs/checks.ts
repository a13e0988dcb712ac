import { existsSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { problemOf } from "./commands.js";
import type { Databases } from "./databases.js";
import { readDocument, ROOT, type Block, type Link } from "./documents.js";
import { runSql, type Programs } from "./programs.js";
import { asksForTable, type Tables } from "./tables.js";

const PROGRAM_MS = 20_000;

/** What a block is checked against. `next` is the block after it. Without `databases` there is no PostgreSQL, without `tables` no DynamoDB. */
interface Surroundings {
  programs: Programs;
  next: Block | undefined;
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
  json: { title: "json can be parsed", check: ({ text }) => void JSON.parse(text) },
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
  if (block.tellsOutput && block.language !== "ts") {
    throw new Error("<!-- output --> belongs before a ts block; the text block after that is its output");
  }
  await known.check(block, around);
}

async function checkProgram(block: Block, { programs, next, databases, tables, limitMs }: Surroundings): Promise<void> {
  const errors = programs.errorsOf(block);
  if (errors.length > 0) throw new Error(errors.join("\n"));
  // Whoever asks for a database or a table gets one of its own.
  const asks = databases !== undefined && block.text.includes("DATABASE_URL");
  const variables = {
    ...(asks && { DATABASE_URL: await databases.empty() }),
    ...(tables !== undefined && asksForTable(block) && tables.variables()),
  };
  const output = await programs.run(block, limitMs ?? PROGRAM_MS, variables);
  if (!block.tellsOutput) return;
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

function checkShell({ text }: Block): void {
  const problems = text.split("\n").map((line) => (line.trim() === "" ? null : problemOf(line)));
  const found = problems.filter((problem) => problem !== null);
  if (found.length > 0) throw new Error(found.join("\n"));
}

export function isRelative({ target }: Link): boolean {
  return !/^[a-z][a-z+.-]*:/i.test(target);
}

/** A relative link of the document `path` leads to a file that exists, and to one of its headings. */
export function checkLink(path: string, { target }: Link): void {
  const [file = "", anchor] = target.split("#");
  const to = file === "" ? path : posix.join(dirname(path), decodeURIComponent(file));
  if (!existsSync(join(ROOT, to))) throw new Error(`there is no ${to}`);
  if (anchor === undefined) return;
  if (!to.endsWith(".md")) throw new Error(`${to} has no headings`);
  const { anchors } = readDocument(to);
  if (!anchors.has(anchor)) throw new Error(`${to} has no heading #${anchor}; it has ${[...anchors].join(", ")}`);
}
