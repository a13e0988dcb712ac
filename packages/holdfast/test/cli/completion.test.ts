import { spawnSync } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { command, group, keyFlag, type Command } from "#src/cli/command.js";
import { completionsOf } from "#src/cli/complete.js";
import { completionScript } from "#src/cli/completion-scripts.js";
import { KEY_NAMES } from "#src/config/index.js";
import { describe, expect, it } from "vitest";
import { folder } from "../config/scene.js";
import { holdfastCommand, MAIN, plainEnv } from "./scene.js";

const root: Command = group({
  name: "hf",
  summary: "Root.",
  commands: [
    group({
      name: "jobs",
      summary: "Jobs.",
      commands: [
        command({
          name: "list",
          summary: "Lists.",
          flags: {
            state: { kind: "choice", choices: ["pending", "dead", "done"], repeated: true, says: "Which." },
            limit: { kind: "count", least: 1, most: 9, says: "How many." },
            concurrency: keyFlag("jobs.concurrency"),
          },
          arguments: {
            shell: { kind: "choice", choices: ["one", "two"], says: "x" },
            file: { kind: "text", complete: "files", repeated: true, says: "y" },
          },
          run: () => {},
        }),
        command({ name: "load", summary: "Loads.", run: () => {} }),
      ],
    }),
    command({ name: "journal", summary: "Journal.", run: () => {} }),
  ],
});
/** The words after `hf`; the last is under the cursor. */
const complete = (...words: string[]): string[] => completionsOf(root, words).map(({ word }) => word);

describe("completion", () => {
  it("knows commands", () => {
    expect(complete("")).toEqual(["jobs", "journal"]);
    expect(complete("jo")).toEqual(["jobs", "journal"]);
    expect(complete("job")).toEqual(["jobs"]);
    expect(complete("jobs", "l")).toEqual(["list", "load"]);
    expect(complete("--json", "jobs", "li")).toEqual(["list"]);
    expect(complete("--config", "jobs", "jo")).toEqual(["jobs", "journal"]);
    expect(complete("journal", "")).toEqual([]);
  });

  it("knows flags, each once unless it may be repeated", () => {
    expect(complete("jobs", "list", "--l")).toEqual(["--limit"]);
    expect(complete("jobs", "list", "--limit", "3", "--l")).toEqual([]);
    expect(complete("jobs", "list", "--state", "dead", "--s")).toEqual(["--state"]);
    expect(complete("--ver")).toEqual(["--version", "--verbose"]);
    expect(complete("journal", "--ver")).toEqual(["--verbose"]);
  });

  it("knows values of flags, however they are typed, and of arguments", () => {
    expect(complete("jobs", "list", "--state", "")).toEqual(["pending", "dead", "done"]);
    expect(complete("jobs", "list", "--state", "d")).toEqual(["dead", "done"]);
    expect(complete("jobs", "list", "--state=d")).toEqual(["--state=dead", "--state=done"]);
    // As bash cuts it.
    expect(complete("jobs", "list", "--state", "=", "d")).toEqual(["dead", "done"]);
    expect(complete("jobs", "list", "--state", "=")).toEqual(["pending", "dead", "done"]);
    expect(complete("jobs", "list", "--limit", "")).toEqual([]);
    expect(complete("jobs", "list", "")).toEqual(["one", "two"]);
    expect(complete("jobs", "list", "--limit", "3", "t")).toEqual(["two"]);
    expect(complete("jobs", "list", "one", "")).toEqual([":files"]);
    expect(complete("jobs", "list", "one", "a", "b")).toEqual([":files"]);
    expect(complete("--config", "")).toEqual([":files"]);
    expect(complete("jobs", "list", "--", "--")).toEqual([]);
  });
});

/** `holdfast` on the path, and a shell that has its completion. */
function shellFolder(): { cwd: string; env: Record<string, string> } {
  const cwd = folder({ "some file.toml": "" });
  writeFileSync(join(cwd, "holdfast"), `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`);
  chmodSync(join(cwd, "holdfast"), 0o755);
  const env = plainEnv();
  return { cwd, env: { ...env, PATH: `${cwd}:${env["PATH"]}` } };
}
const has = (shell: string): boolean => spawnSync(shell, ["--version"]).status === 0;

describe("the scripts", () => {
  it("are printed by the command", async () => {
    for (const shell of ["bash", "zsh", "fish"] as const) {
      const { code, stdout } = await holdfastCommand(["completion", shell]);
      expect({ code, stdout }).toEqual({ code: 0, stdout: `${completionScript(shell)}\n` });
    }
  });

  it.skipIf(!has("bash"))("bash completes with it", () => {
    const { cwd, env } = shellFolder();
    const cases: readonly (readonly [words: readonly string[], completed: readonly string[]])[] = [
      [["con"], ["config"]],
      [
        ["config", ""],
        ["list", "get", "set", "unset", "path"],
      ],
      [
        ["config", "get", "jobs.s"],
        ["jobs.scheduler_enabled", "jobs.scheduler_tick_s"],
      ],
      [["config", "get", ""], KEY_NAMES],
      [
        ["completion", ""],
        ["bash", "zsh", "fish"],
      ],
      [["config", "list", "--j"], ["--json"]],
      [["config", "list", "--config", "some"], ["some file.toml"]],
      [["nonsense", "x"], []],
    ];
    const script = [
      "source <(holdfast completion bash)",
      // What bash itself does with the words before the cursor.
      'completing() { COMP_WORDS=(holdfast "$@"); COMP_CWORD=$#; _holdfast; printf "%s\\n" "${COMPREPLY[@]:-}" --; }',
      "complete -p holdfast",
      ...cases.map(([words]) => `completing ${words.map((word) => `'${word}'`).join(" ")}`),
    ].join("\n");
    const { stdout, stderr } = spawnSync("bash", ["-c", script], { cwd, env, encoding: "utf8" });
    expect(stderr).toBe("");
    const [registered, ...completed] = stdout.trimEnd().split("\n");
    expect(registered).toBe("complete -F _holdfast holdfast");
    expect(completed).toEqual(cases.flatMap(([, words]) => [...(words.length === 0 ? [""] : words), "--"]));
  });

  it.skipIf(!has("zsh"))("zsh takes it", () => {
    const { cwd, env } = shellFolder();
    const script =
      "autoload -U compinit && compinit -u -D && source <(holdfast completion zsh) && print -r -- $_comps[holdfast]";
    const { stdout } = spawnSync("zsh", ["-f", "-c", script], { cwd, env });
    expect(stdout.toString()).toBe("_holdfast\n");
  });

  it.skipIf(!has("fish"))("fish completes with it", () => {
    const { cwd, env } = shellFolder();
    const script = "holdfast completion fish | source; complete -C 'holdfast conf'";
    const { stdout } = spawnSync("fish", ["--no-config", "-c", script], { cwd, env });
    expect(stdout.toString()).toBe("config\tReads and changes the configuration.\n");
  });
});
