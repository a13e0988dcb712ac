import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, it, onTestFinished } from "vitest";
import { until } from "../../packages/holdfast/dist/testing/exercise-store/until.js";
import { callOf } from "./commands.js";
import { readDocument, ROOT, type Block } from "./documents.js";
import { namedIn } from "./programs.js";

const MAIN = join(ROOT, "packages/holdfast/dist/bundle/cli.js");
// Runs TypeScript on Node 20 too, where the guide recommends tsx.
const JITI = join(ROOT, "node_modules/jiti/lib/jiti-cli.mjs");
// Inside the repository, so that imports find the installed packages.
const FOLDER = join(import.meta.dirname, ".blocks");

export const { blocks } = readDocument("docs/guides/quick-start.md");

/** Replaces what differs between runs: ids, times, addresses, column widths. */
function normalized(output: string): string {
  return (
    output
      .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "<id>")
      .replaceAll(/(?:\d+ ?(?:ms|[dhms]) )+ago/g, "<ago>")
      .replaceAll(/\bin (?:\d+[dhms] ?)+/g, "<in> ")
      .replaceAll(/\(\d+\.\d a second\)/g, "(<rate>)")
      // The first minute of the history may have been written meanwhile.
      .replaceAll(/^(?:last hour|failed attempts|longest wait): .*$/gm, "")
      .replace(/"recentFailures":\[.*\]/, `"recentFailures":[…]`)
      .replaceAll(/Running on \S+; dashboard: http:\/\/127\.0\.0\.1:\d+/g, "Running on <store>; dashboard: <url>")
      .replaceAll(/ +/g, " ")
      .replaceAll(/ $/gm, "")
      .trim()
  );
}

/** A folder with the files of the guide, and the environment for its commands. */
export async function reader(store: string | null): Promise<{ cwd: string; env: Record<string, string> }> {
  await mkdir(FOLDER, { recursive: true });
  const cwd = await mkdtemp(join(FOLDER, "quick-start-"));
  onTestFinished(() => rm(cwd, { recursive: true, force: true }));
  for (const [name, block] of namedIn(blocks)) await writeFile(join(cwd, name), block.text);
  const { PATH = "", HOME = "" } = process.env;
  return { cwd, env: { PATH, HOME, HOLDFAST_SERVER_PORT: "0", ...(store !== null && { HOLDFAST_STORE: store }) } };
}

/** Runs the commands of the guide on a store; null is the one of the guide. */
export function runsFromTopToBottom(store: () => Promise<string | null>): void {
  it("runs from top to bottom with the quoted output", { timeout: 120_000 }, async () => {
    const { cwd, env } = await reader(await store());
    let url = "";

    async function start(args: readonly string[]): Promise<string> {
      const child = spawn(process.execPath, [MAIN, ...args], { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
      onTestFinished(async () => {
        child.kill("SIGTERM");
        if (child.exitCode === null) await once(child, "exit");
      });
      let output = "";
      for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (t) => (output += t));
      url = await until("the server", () => /http:\/\/127\.0\.0\.1:\d+/.exec(output)?.[0]);
      return output;
    }

    async function ended(args: readonly string[]): Promise<string> {
      const child = spawn(process.execPath, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
      const [output, errors, [code]] = await Promise.all([
        text(child.stdout),
        text(child.stderr),
        once(child, "close") as Promise<[number]>,
      ]);
      expect(code, `${args.join(" ")}: ${errors}`).toBe(0);
      // Warnings are part of what the reader sees. Node may add its own notes.
      return `${output}${errors.replaceAll(/^(?!warning: ).*\n/gm, "")}`;
    }

    function outputOf(line: string): Promise<string> | null {
      const call = callOf(line);
      if (call?.[0] === "dev") return start(call);
      if (call !== null) return ended([MAIN, ...call]);
      const [name = "", given = ""] = line.split(" ");
      if (name === "node") return ended([JITI, given]);
      if (name === "curl") return fetch(`${url}${new URL(given).pathname}`).then((response) => response.text());
      return null;
    }

    let shown = 0;
    for (const [index, block] of blocks.entries()) {
      if (block.language !== "sh" || block.text.startsWith("npm ")) continue;
      const next: Block | undefined = blocks[index + 1];
      const lines = block.text.split("\n");
      let before = "";
      for (const line of lines.slice(0, -1)) before += await outputOf(line);
      if (next?.language !== "text") {
        await outputOf(lines.at(-1) ?? "");
        continue;
      }
      shown++;
      const expected = normalized(next.text);
      // The worker may not have finished yet.
      let last = "";
      const deadline = Date.now() + 20_000;
      do last = normalized(`${before}${await outputOf(lines.at(-1) ?? "")}`);
      while (last !== expected && Date.now() < deadline && /list|stats|curl/.test(lines.at(-1) ?? ""));
      expect(last, `${next.document}:${next.line}`).toBe(expected);
    }
    expect(shown).toBe(7);
  });
}
