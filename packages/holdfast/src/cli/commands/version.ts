import { command, type Command } from "../parse/command.js";

export const versionCommand: Command = command({
  name: "version",
  summary: "Show the version.",
  run({ output, version }) {
    output.result({ version }, (writer) => writer.line(version));
  },
});
