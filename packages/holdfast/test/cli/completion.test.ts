import { spawn, spawnSync } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { command, group, keyFlag, type Command } from "#src/cli/parse/command.js";
import { completionsOf } from "#src/cli/parse/complete.js";
import { completionScript } from "#src/cli/parse/completion-scripts.js";
import { KEY_NAMES } from "#src/config/index.js";
import { describe, expect, it, onTestFinished } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { folder } from "../config/scene.js";
import { MAIN, plainEnv, spawnHoldfast } from "./scene.js";

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
            state: { kind: "choice", choices: ["pending", "dead", "done"], repeated: true, description: "Which." },
            limit: { kind: "count", min: 1, max: 9, description: "How many." },
            concurrency: keyFlag("jobs.concurrency"),
          },
          arguments: {
            shell: { kind: "choice", choices: ["one", "two"], description: "x" },
            file: { kind: "text", complete: "files", repeated: true, description: "y" },
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
  it("completes commands", () => {
    expect(complete("")).toEqual(["jobs", "journal"]);
    expect(complete("jo")).toEqual(["jobs", "journal"]);
    expect(complete("job")).toEqual(["jobs"]);
    expect(complete("jobs", "l")).toEqual(["list", "load"]);
    expect(complete("--json", "jobs", "li")).toEqual(["list"]);
    expect(complete("--config", "jobs", "jo")).toEqual(["jobs", "journal"]);
    expect(complete("journal", "")).toEqual([]);
    expect(complete("nonsense", "")).toEqual([]);
    expect(complete("jobs", "nonsense", "")).toEqual([]);
  });

  it("completes flags, repeatable ones again", () => {
    expect(complete("jobs", "list", "--l")).toEqual(["--limit"]);
    expect(complete("jobs", "list", "--limit", "3", "--l")).toEqual([]);
    expect(complete("jobs", "list", "--state", "dead", "--s")).toEqual(["--state"]);
    expect(complete("--ver")).toEqual(["--version", "--verbose"]);
    expect(complete("journal", "--ver")).toEqual(["--verbose"]);
  });

  it("completes values of flags and arguments", () => {
    expect(complete("jobs", "list", "--state", "")).toEqual(["pending", "dead", "done"]);
    expect(complete("jobs", "list", "--state", "d")).toEqual(["dead", "done"]);
    expect(complete("jobs", "list", "--state=d")).toEqual(["--state=dead", "--state=done"]);
    // The words as bash splits them.
    expect(complete("jobs", "list", "--state", "=", "d")).toEqual(["dead", "done"]);
    expect(complete("jobs", "list", "--state", "=")).toEqual(["pending", "dead", "done"]);
    expect(complete("jobs", "list", "--limit", "")).toEqual([]);
    expect(complete("jobs", "list", "")).toEqual(["one", "two"]);
    expect(complete("jobs", "list", "--limit", "3", "t")).toEqual(["two"]);
    expect(complete("jobs", "list", "one", "")).toEqual([":files"]);
    expect(complete("jobs", "list", "one", "a", "b")).toEqual([":files"]);
    expect(complete("--config", "")).toEqual([":files"]);
    expect(complete("--config=a")).toEqual([":files"]);
    expect(complete("jobs", "list", "--", "--")).toEqual([]);
  });
});

/** A folder with `holdfast` on the PATH. */
function shellFolder(): { cwd: string; env: Record<string, string> } {
  const cwd = folder({ "some file.toml": "" });
  writeFileSync(join(cwd, "holdfast"), `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`);
  chmodSync(join(cwd, "holdfast"), 0o755);
  const env = plainEnv();
  return { cwd, env: { ...env, PATH: `${cwd}:${env["PATH"]}` } };
}
const has = (shell: string): boolean => spawnSync(shell, ["--version"]).status === 0;
const reason = (shell: string): string => (has(shell) ? "" : ` (${shell} is not installed)`);
// `script` of util-linux runs a command on a new terminal.
const hasTerminal = spawnSync("script", ["--version"]).stdout?.toString().includes("util-linux") === true;

describe("completion scripts", () => {
  it("are printed by holdfast completion", async () => {
    for (const shell of ["bash", "zsh", "fish"] as const) {
      const { code, stdout } = await spawnHoldfast(["completion", shell]);
      expect({ code, stdout }).toEqual({ code: 0, stdout: `${completionScript(shell)}\n` });
    }
  });

  it.skipIf(!has("bash"))(`complete words in bash${reason("bash")}`, () => {
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
      // Calls the completion function as bash does.
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

  it.skipIf(!has("fish"))(`complete words in fish${reason("fish")}`, () => {
    const { cwd, env } = shellFolder();
    const cases: readonly (readonly [line: string, completed: readonly string[]])[] = [
      ["holdfast conf", ["config\tRead and change the configuration."]],
      ["holdfast config get jobs.s", ["jobs.scheduler_enabled", "jobs.scheduler_tick_s"]],
      ["holdfast completion ", ["bash", "zsh", "fish"]],
      ["holdfast jobs list --state=d", ["--state=dead"]],
      ["holdfast --config so", ["some file.toml"]],
      ["holdfast --config=so", ["--config=some file.toml"]],
      ['holdfast config "ge', ["get\tPrint one value."]],
      ["holdfast nonsense ", []],
    ];
    const script = [
      "holdfast completion fish | source",
      ...cases.map(([line]) => `complete -C '${line}'; echo ===`),
    ].join("\n");
    const { stdout, stderr } = spawnSync("fish", ["--no-config", "-c", script], { cwd, env, encoding: "utf8" });
    expect(stderr).toBe("");
    expect(stdout.trimEnd().split("\n")).toEqual(cases.flatMap(([, words]) => [...words, "==="]));
  });

  it.skipIf(!has("zsh"))(`load from the fpath of zsh${reason("zsh")}`, () => {
    const { cwd, env } = shellFolder();
    writeFileSync(join(cwd, "_holdfast"), `${completionScript("zsh")}\n`);
    const script = "fpath=($PWD $fpath); autoload -U compinit && compinit -u -D && print -r -- $_comps[holdfast]";
    const { stdout } = spawnSync("zsh", ["-f", "-c", script], { cwd, env });
    expect(stdout.toString()).toBe("_holdfast\n");
  });

  const SOURCES: Readonly<Record<string, readonly [args: string, line: string]>> = {
    bash: ["--norc --noprofile -i", "source <(holdfast completion bash)"],
    zsh: ["-f -i", "autoload -U compinit && compinit -u -D && source <(holdfast completion zsh)"],
    fish: ["--no-config -i", "holdfast completion fish | source"],
  };
  for (const [shell, [args, source]] of Object.entries(SOURCES)) {
    it.skipIf(!has(shell) || !hasTerminal)(
      `complete with the Tab key in ${shell}${reason(shell)}${hasTerminal ? "" : " (needs script of util-linux)"}`,
      { timeout: 90_000 },
      async () => {
        const { cwd, env } = shellFolder();
        // Completes like holdfast. For any other call it prints its arguments.
        const stub = `#!/bin/sh
case "$1" in
  __complete|completion) exec "${process.execPath}" "${MAIN}" "$@" ;;
  *) printf '<'; printf '[%s]' "$@"; printf '>' ;;
esac
`;
        writeFileSync(join(cwd, "holdfast"), stub);
        const child = spawn("script", ["-qefc", `stty cols 120 rows 50; exec ${shell} ${args}`, "/dev/null"], {
          cwd,
          env: { ...env, TERM: "xterm" },
        });
        onTestFinished(() => void child.kill("SIGKILL"));
        let shown = "";
        child.stdout.setEncoding("utf8").on("data", (text: string) => (shown += text));
        const calls = (): string[] => [...shown.matchAll(/<((?:\[[^\]]*\])+)>/g)].map(([, words = ""]) => words);
        child.stdin.write(`${source}\nholdfast ready\n`);
        await until("the shell to be ready", () => calls().length === 1, 60_000);
        const cases: readonly (readonly [typed: string, called: string])[] = [
          ["holdfast con\t", "[config]"],
          ["holdfast jobs list --sta\tde\t", "[jobs][list][--state][dead]"],
          ["holdfast jobs list --state=de\t", "[jobs][list][--state=dead]"],
          ["holdfast config get jobs.scheduler_t\t", "[config][get][jobs.scheduler_tick_s]"],
          ["holdfast --config some\t", "[--config][some file.toml]"],
          ["holdfast --config=some\t", "[--config=some file.toml]"],
          ["holdfast nonsense x\t", "[nonsense][x]"],
        ];
        for (const [at, [typed]] of cases.entries()) {
          child.stdin.write(`${typed}\n`);
          await until(`the call of ${typed}`, () => calls().length === at + 2, 60_000);
        }
        expect(calls()).toEqual(["[ready]", ...cases.map(([, called]) => called)]);
      },
    );
  }
});
