import { command, type Command } from "../parse/command.js";
import { completionScript, SHELLS } from "../parse/completion-scripts.js";

export const completionCommand: Command = command({
  name: "completion",
  summary: "Prints what completes commands, flags and their values in a shell.",
  about: "The script's first line says where it belongs.",
  arguments: { shell: { kind: "choice", choices: SHELLS, says: "The shell." } },
  examples: [
    { line: "completion bash", says: "In ~/.bashrc: source <(holdfast completion bash)" },
    { line: "completion fish", says: "Into ~/.config/fish/completions/holdfast.fish" },
  ],
  run({ output }, { args: { shell } }) {
    const script = completionScript(shell);
    output.answer({ shell, script }, (page) => page.block(script));
  },
});
