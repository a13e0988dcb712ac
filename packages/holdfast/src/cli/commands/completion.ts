import { command, type Command } from "../parse/command.js";
import { completionScript, SHELLS } from "../parse/completion-scripts.js";

export const completionCommand: Command = command({
  name: "completion",
  summary: "Print a shell completion script.",
  about: "The first line of the script explains how to install it.",
  arguments: { shell: { kind: "choice", choices: SHELLS, description: "The shell." } },
  examples: [
    { line: "completion bash", description: "Add to ~/.bashrc: source <(holdfast completion bash)" },
    { line: "completion fish", description: "Save as ~/.config/fish/completions/holdfast.fish" },
  ],
  run({ output }, { args: { shell } }) {
    const script = completionScript(shell);
    output.result({ shell, script }, (writer) => writer.block(script));
  },
});
