import { readFileSync } from "node:fs";
import { join } from "node:path";
import { rootOf, type Command } from "#src/cli/parse/command.js";
import { ROUTE_NAMES } from "#src/admin/contract/routes.js";
import { helpText } from "#src/cli/parse/help.js";
import { JSON_RESULTS } from "#src/cli/parse/json-results.js";
import { parseCall } from "#src/cli/parse/parse.js";
import { program } from "#src/cli/program.js";
import { referenceText } from "#src/cli/parse/reference.js";
import { widthOf } from "#src/cli/ui/text-width.js";
import { describe, expect, it } from "vitest";

const root = rootOf(program());
function* walk(command: Command, path: string[]): Generator<{ command: Command; path: string[] }> {
  yield { command, path };
  for (const each of command.commands) yield* walk(each, [...path, each.name]);
}
const all = [...walk(root, [])];

describe("the help", () => {
  for (const { command, path } of all) {
    it(`${["holdfast", ...path].join(" ")}: fits 80 columns, has sentences and valid examples`, () => {
      const lines = helpText(root, path, command).split("\n");
      expect(lines.filter((line) => widthOf(line) > 80)).toEqual([]);
      const sentences = [
        command.summary,
        ...(command.about === undefined ? [] : [command.about]),
        ...[...Object.values(command.flags), ...Object.values(command.arguments)].map(({ description }) => description),
      ];
      for (const sentence of sentences) expect(sentence).toMatch(/^[A-Z].*\.$/s);
      for (const { line } of command.examples) {
        const words = line.split(" ").map((word) => word.replace(/^'(.*)'$/, "$1"));
        expect(parseCall(root, words).command).toBe(command);
      }
    });
  }

  it("documents the JSON result of every command", () => {
    const runnable = all.filter(({ command }) => command.run !== null).map(({ path }) => path.join(" "));
    expect(Object.keys(JSON_RESULTS).toSorted()).toEqual(runnable.toSorted());
    const calls = Object.values(JSON_RESULTS).flatMap((result) => result.match(/(?<=`)[a-z]+\.[a-z]+(?=`)/gi) ?? []);
    expect(calls.length).toBeGreaterThan(20);
    const routes: readonly string[] = ROUTE_NAMES;
    expect(calls.filter((call) => !routes.includes(call) && call !== "source.kind")).toEqual([]);
  });

  it("C-21 equals docs/reference/cli.md (node scripts/cli-reference.mjs)", () => {
    const page = readFileSync(join(import.meta.dirname, "../../../../docs/reference/cli.md"), "utf8");
    expect(page).toBe(referenceText(root));
  });
});
