import { didYouMean } from "../../config/index.js";
import { command, type Command } from "../parse/command.js";
import { UsageError } from "../errors.js";
import { showHelp } from "../parse/help.js";
import { usageHint } from "../parse/parse.js";

export const helpCommand: Command = command({
  name: "help",
  summary: "Show help for a command, or list all commands.",
  arguments: {
    command: { kind: "text", optional: true, repeated: true, description: "The command, e.g. config set." },
  },
  run({ output, root }, { args }) {
    let command = root;
    for (const [index, word] of args.command.entries()) {
      const next = command.commands.find(({ name }) => name === word);
      if (next === undefined) {
        const names = command.commands.map(({ name }) => name);
        const path = args.command.slice(0, index + 1).join(" ");
        throw new UsageError(`unknown command ${JSON.stringify(path)}${didYouMean(word, names)}`, usageHint(root.name));
      }
      command = next;
    }
    return showHelp(output, root, args.command, command);
  },
});
