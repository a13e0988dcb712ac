import type { Command } from "./command.js";
import { helpText } from "./help.js";

/** The whole of docs/reference/cli.md: every command's help. A test compares; `scripts/cli-reference.mjs` writes it. */
export function referenceText(root: Command): string {
  const sections = [...walk(root, [])].flatMap(({ command, path }) => [
    `## ${[root.name, ...path].join(" ")}`,
    `\`\`\`text\n${helpText(root, path, command, { globals: path.length === 0 })}\n\`\`\``,
    ...(command.examples.length === 0
      ? []
      : [`\`\`\`sh\n${command.examples.map(({ line }) => `${root.name} ${line}`).join("\n")}\n\`\`\``]),
  ]);
  return `${[INTRODUCTION, ...sections].join("\n\n")}\n`;
}

const INTRODUCTION = `# Command reference

Every command with its flags, as \`--help\` shows them. This page is made from the same table as the command itself; see the
[configuration guide](../guides/configuration.md) for what can be set by file and environment.

| Exit code | Meaning                                             |
| --------- | --------------------------------------------------- |
| 0         | done                                                |
| 1         | failed; stderr says why                             |
| 2         | bad usage or bad configuration; nothing was done    |
| 130, 143  | ended by Ctrl-C or SIGTERM before the work was done |

Answers go to stdout, everything else to stderr. With \`--json\` stdout gets one JSON document and nothing else. Text of jobs
never acts on the terminal: control characters are shown as \`\\x1b\`.`;

function* walk(command: Command, path: readonly string[]): Generator<{ command: Command; path: readonly string[] }> {
  yield { command, path };
  for (const each of command.commands) yield* walk(each, [...path, each.name]);
}
