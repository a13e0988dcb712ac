import type { Command } from "./command.js";
import { helpText } from "./help.js";
import { JSON_RESULTS } from "./json-results.js";

/** Nothing of a group, which only shows its help. */
function jsonOf(path: readonly string[]): string[] {
  const answer = JSON_RESULTS[path.join(" ")];
  return answer === undefined ? [] : [`With \`--json\`: ${answer}.`];
}

/** The whole of docs/reference/cli.md: every command's help. A test compares; `scripts/cli-reference.mjs` writes it. */
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

Every command with its flags, as \`--help\` shows them. This page is made from the same table as the command itself; see the
[configuration guide](../guides/configuration.md) for what can be set by file and environment.

| Exit code | Meaning                                             |
| --------- | --------------------------------------------------- |
| 0         | done                                                |
| 1         | failed; stderr says why                             |
| 2         | bad usage or bad configuration; nothing was done    |
| 130, 143  | ended by Ctrl-C or SIGTERM before the work was done |

Answers go to stdout, everything else to stderr. Text of jobs never acts on the terminal: control characters are shown as \`\\x1b\`.

## JSON

With \`--json\` stdout gets one JSON document and nothing else; commands that go on (\`stats --watch\`, \`dev\`, \`worker\`, \`serve\`) write
one object a line. What it is stands with each command; "the answer of \`jobs.list\`" is what that call of the
[HTTP API](http-api.md) answers, on a store as on a server, and its schema is in the OpenAPI document. Times are ISO 8601 in UTC.

A call that fails writes nothing to stdout, and as the last line of stderr \`{"error":{"code","message","hint"?}}\`; with
\`--verbose\` there is \`stack\` too. Exit codes are the same as without \`--json\`. \`doctor\` and \`migrate --check\` do answer when
they end with 1: what they found is their answer. A command that goes on may fail after some lines of answers.

Within a major version fields may be added; none is removed, and none changes its meaning. The same is true of the \`code\` of an
error; its \`message\` and \`hint\` are for people and may change.`;

function* walk(command: Command, path: readonly string[]): Generator<{ command: Command; path: readonly string[] }> {
  yield { command, path };
  for (const each of command.commands) yield* walk(each, [...path, each.name]);
}
