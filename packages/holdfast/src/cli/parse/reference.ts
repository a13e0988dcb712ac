import type { Command } from "./command.js";
import { helpText } from "./help.js";
import { JSON_RESULTS } from "./json-results.js";

/** Empty for a group, which only prints its help. */
function jsonOf(path: readonly string[]): string[] {
  const result = JSON_RESULTS[path.join(" ")];
  return result === undefined ? [] : [`With \`--json\`: ${result}.`];
}

/** The content of docs/reference/cli.md. `scripts/cli-reference.mjs` writes it; a test compares it. */
export function referenceText(root: Command): string {
  const sections = [...walk(root, [])].flatMap(({ command, path }) => [
    `## ${[root.name, ...path].join(" ")}`,
    `\`\`\`text\n${helpText(root, path, command, { globals: path.length === 0 })}\n\`\`\``,
    ...(command.examples.length === 0
      ? []
      : [`\`\`\`sh\n${command.examples.map(({ line }) => `${root.name} ${line}`).join("\n")}\n\`\`\``]),
    ...jsonOf(path),
  ]);
  return `${[INTRODUCTION, ...sections].join("\n\n")}\n`;
}

const INTRODUCTION = `# Command reference

Every command with its flags, as \`--help\` prints them. This page is generated from the command definitions. See the
[configuration guide](../guides/configuration.md) for settings in files and environment variables.

| Exit code | Meaning                                         |
| --------- | ----------------------------------------------- |
| 0         | success                                         |
| 1         | failure; stderr has the reason                  |
| 2         | bad usage or configuration; nothing was changed |
| 130, 143  | interrupted by Ctrl-C or SIGTERM                |

Results go to stdout, everything else to stderr. Control characters in job data are printed escaped, as \`\\x1b\`.

## JSON

With \`--json\`, stdout is one JSON document. Long-running commands (\`stats --watch\`, \`dev\`, \`worker\`, \`serve\`) write one
object per line. The document is described with each command: "the result of \`jobs.list\`" means the response of that call of the
[HTTP API](http-api.md), whether the command uses a store or a server. Its schema is in the OpenAPI document. Times are ISO 8601 in UTC.

A command that fails writes nothing to stdout. The last line of stderr is \`{"error":{"code","message","hint"?}}\`, with
\`stack\` if \`--verbose\` is set. Exit codes are the same as without \`--json\`. \`doctor\` and \`migrate --check\` print their
findings even if they exit with code 1. A long-running command may fail after it has printed results.

Within a major version, fields may be added but not removed or changed. This includes the \`code\` of an error. \`message\` and
\`hint\` are for people and may change.`;

function* walk(command: Command, path: readonly string[]): Generator<{ command: Command; path: readonly string[] }> {
  yield { command, path };
  for (const each of command.commands) yield* walk(each, [...path, each.name]);
}
