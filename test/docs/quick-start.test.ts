import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { ROOT, type Block } from "./documents.js";
import { blocks, reader, runsFromTopToBottom } from "./quick-start-suite.js";

const TSC = join(ROOT, "node_modules/typescript/bin/tsc");

describe("the quick start on SQLite", () => {
  runsFromTopToBottom(() => Promise.resolve(null));
});

describe("the tsconfig.json of the quick start", () => {
  const ownOf = (given: Block): Record<string, Record<string, unknown>> =>
    JSON.parse(given.text) as Record<string, Record<string, unknown>>;
  const config = (): Record<string, Record<string, unknown>> =>
    ownOf(blocks.find(({ language, text: body }) => language === "json" && body.includes("compilerOptions")) as Block);
  const compiled = (): object => {
    const { noEmit: _no, allowImportingTsExtensions: _extensions, ...rest } = config()["compilerOptions"] ?? {};
    return { compilerOptions: { ...rest, outDir: "dist", rewriteRelativeImportExtensions: true } };
  };

  it.each([
    ["checks its files", config],
    ["compiles them in its other form", compiled],
  ])("%s", { timeout: 120_000 }, async (_name, made) => {
    const { cwd } = await reader(null);
    await writeFile(join(cwd, "package.json"), '{ "type": "module" }');
    await writeFile(join(cwd, "tsconfig.json"), JSON.stringify(made()));
    const child = spawn(process.execPath, [TSC, "-p", cwd], { stdio: ["ignore", "pipe", "pipe"] });
    const [output, [code]] = await Promise.all([text(child.stdout), once(child, "close") as Promise<[number]>]);
    expect({ output, code }).toEqual({ output: "", code: 0 });
  });
});
