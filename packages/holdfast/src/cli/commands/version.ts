import { command, type Command } from "../parse/command.js";

export const versionCommand: Command = command({
  name: "version",
  summary: "Shows the version.",
  run({ output, version }) {
    output.answer({ version }, (page) => page.line(version));
  },
});
