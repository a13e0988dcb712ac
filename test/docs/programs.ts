import { spawn } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { ROOT, type Block } from "./documents.js";

// Inside the repository, so that imports find what is installed here. Ignored by git; left for those who debug a block.
const FOLDER = join(import.meta.dirname, ".blocks");
// Modules of the reader's own that blocks import.
const STAND_INS = join(import.meta.dirname, "stand-ins");

/** The compiled `ts` blocks of some documents. */
export interface Programs {
  /** Type errors of a block, by document and line. */
  errorsOf(block: Block): readonly string[];
  /** Runs a block in a separate process in an empty folder. It must exit with 0. Returns its output. */
  run(block: Block, limitMs: number, variables?: Variables): Promise<string>;
}

/** What a process finds in its environment besides what is there. */
type Variables = Readonly<Record<string, string>>;

/** `README-12` for the block that begins at line 12 of README.md. */
function nameOf({ document, line }: Block): string {
  return `${document.replace(/\.md$/, "").replaceAll(/[^\w-]+/g, "-")}-${line}`;
}

/** Compiles blocks in one run of the compiler, in a folder of this name. */
export async function compile(name: string, blocks: readonly Block[]): Promise<Programs> {
  const folder = join(FOLDER, name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const byFile = new Map(blocks.map((block) => [`${nameOf(block)}.ts`, block]));
  for (const [file, { line, text }] of byFile) {
    // Empty lines come first, so that lines of compiler and stack traces are those of the document.
    writeFileSync(join(folder, file), `${"\n".repeat(line - 1)}${text}\n`);
  }
  for (const [name, block] of namedIn(blocks)) {
    byFile.set(name, block);
    writeFileSync(join(folder, name), `${"\n".repeat(block.line - 1)}${block.text}\n`);
  }
  const standIns = readdirSync(STAND_INS);
  for (const file of standIns) copyFileSync(join(STAND_INS, file), join(folder, file));
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(configFor([...byFile.keys(), ...standIns])));
  const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
  const { end, output } = await run([compiler, "-p", folder, "--pretty", "false"], ROOT, 60_000);
  const errors = placeErrors(output, byFile);
  if (end !== 0 && errors.size === 0) throw new Error(`the compiler: ${end}; it said:\n${output}`);
  return {
    errorsOf: (block) => errors.get(block) ?? [],
    run: (block, limitMs, variables) =>
      inEmptyFolder((cwd) =>
        mustEnd(block, ["--enable-source-maps", join(folder, "out", `${nameOf(block)}.js`)], cwd, limitMs, variables),
      ),
  };
}

/** Blocks that say in their first line which file they are, `// jobs.ts`: others of the document import them by that. */
export function* namedIn(blocks: readonly Block[]): Generator<[name: string, block: Block]> {
  for (const block of blocks) {
    const name = /^\/\/ ([\w-]+\.ts)$/m.exec(block.text.split("\n", 1)[0] ?? "")?.[1];
    if (name !== undefined) yield [name, block];
  }
}

function configFor(files: string[]): object {
  return {
    extends: join(ROOT, "tsconfig.base.json"),
    compilerOptions: {
      rootDir: ".",
      outDir: "out",
      composite: false,
      declaration: false,
      declarationMap: false,
      isolatedDeclarations: false,
      moduleDetection: "force",
      rewriteRelativeImportExtensions: true,
    },
    files,
  };
}

function placeErrors(output: string, byFile: ReadonlyMap<string, Block>): Map<Block, string[]> {
  const errors = new Map<Block, string[]>();
  for (const text of output.split("\n").filter((line) => /error TS\d+/.test(line))) {
    const found = /^(?<file>[^(]+)\((?<line>\d+),\d+\): (?<message>.*)$/.exec(text)?.groups;
    const block = byFile.get(basename(found?.["file"] ?? ""));
    if (found === undefined || block === undefined) throw new Error(`the compiler says: ${text}`);
    errors.set(block, [...(errors.get(block) ?? []), `${block.document}:${found["line"]}: ${found["message"]}`]);
  }
  return errors;
}

/** Runs SQL against a new database file with the tables of Holdfast, a few jobs and a schedule in it. */
export async function runSql(block: Block): Promise<void> {
  const script = join(import.meta.dirname, "run-sql.mjs");
  await inEmptyFolder((cwd) => mustEnd(block, [script, block.text], cwd, 20_000));
}

/** Runs calls of `holdfast` in sequence in a new folder, with this holdfast.toml. Returns their output. */
export async function runCommands(block: Block, calls: readonly (readonly string[])[], toml: string): Promise<string> {
  const main = join(ROOT, "packages/holdfast/dist/bundle/cli.js");
  return inEmptyFolder(async (cwd) => {
    if (toml !== "") writeFileSync(join(cwd, "holdfast.toml"), toml);
    let printed = "";
    for (const args of calls) printed += await mustEnd(block, [main, ...args], cwd, 20_000);
    return printed;
  });
}

async function mustEnd(
  block: Block,
  args: string[],
  cwd: string,
  limitMs: number,
  variables: Variables = {},
): Promise<string> {
  const { end, output, stdout } = await run(args, cwd, limitMs, variables);
  if (end !== 0) throw new Error(`${block.document}:${block.line}: ${end}; it said:\n${output}`);
  return stdout;
}

async function inEmptyFolder<Result>(use: (folder: string) => Promise<Result>): Promise<Result> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-docs-"));
  try {
    return await use(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Runs Node to its end: 0, or what was wrong with the end. */
function run(
  args: string[],
  cwd: string,
  limitMs: number,
  variables: Variables = {},
): Promise<{ end: 0 | string; stdout: string; output: string }> {
  return new Promise((resolve, reject) => {
    // Not the test runner's own variables: a program behaves as it would in a reader's hands.
    const { NODE_OPTIONS: _options, NODE_ENV: _env, VITEST: _vitest, ...usual } = process.env;
    const env = { ...usual, ...variables };
    const child = spawn(process.execPath, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
    let stdout = "";
    let output = "";
    let late = false;
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
      output += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => (output += text));
    const timer = setTimeout(() => {
      late = true;
      killGroup(child.pid);
    }, limitMs);
    child.once("error", reject);
    child.once("close", (code, signal) => {
      clearTimeout(timer);
      const wrong = late ? `still running after ${limitMs / 1000} s` : `ended with ${signal ?? code}`;
      resolve({ end: code === 0 ? 0 : wrong, stdout, output });
    });
  });
}

/** Ends a process with all that it started: some examples fork. */
function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  process.kill(process.platform === "win32" ? pid : -pid, "SIGKILL");
}
