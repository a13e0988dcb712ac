import { didYouMean } from "../../config/index.js";
import { command, type Command } from "../parse/command.js";
import { BadUsage } from "../errors.js";
import { showHelp } from "../parse/help.js";

export const helpCommand: Command = command({
  name: "help",
  summary: "Shows the help of a command, or all commands.",
  arguments: { command: { kind: "text", optional: true, repeated: true, says: "The command, such as: config set." } },
  run({ output, root }, { args }) {
    let command = root;
    for (const [index, word] of args.command.entries()) {
      const next = command.commands.find(({ name }) => name === word);
      if (next === undefined) {
        const names = command.commands.map(({ name }) => name);
        const path = args.command.slice(0, index + 1).join(" ");
        throw new BadUsage(
          `there is no command ${JSON.stringify(path)}${didYouMean(word, names)}`,
          `${root.name} --help shows all commands`,
        );
      }
      command = next;
    }
    return showHelp(output, root, args.command, command);
  },
});
