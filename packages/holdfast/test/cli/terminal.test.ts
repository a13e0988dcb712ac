import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { widthOf } from "#src/cli/ui/text-width.js";
import { plainEnv, TEST_PROGRAM } from "./scene.js";

// `script` of util-linux runs a command on a new terminal.
const hasTerminal = spawnSync("script", ["--version"]).stdout?.toString().includes("util-linux") === true;

/** Runs the test program on a terminal. `reply` is typed once `asked` is shown. */
async function onTerminal(
  args: string,
  { env = {}, asked, reply }: { env?: Record<string, string>; asked?: string; reply?: string } = {},
): Promise<{ code: number | null; shown: string }> {
  const line = `stty cols 60 -echo; exec ${process.execPath} ${TEST_PROGRAM} ${args}`;
  const child = spawn("script", ["-qefc", line, "/dev/null"], { env: plainEnv({ TERM: "xterm", ...env }) });
  let shown = "";
  let typed = false;
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    shown += text;
    if (asked === undefined || typed || !shown.includes(asked)) return;
    typed = true;
    child.stdin.write(reply ?? "");
  });
  const [code] = (await once(child, "close")) as [number | null];
  return { code, shown: shown.replaceAll("\r\n", "\n") };
}

describe.skipIf(!hasTerminal)("on a terminal", () => {
  it("uses colours and fits tables", async () => {
    const { shown } = await onTerminal("show");
    expect(shown).toContain("\u001b[31m");
    // oxlint-disable-next-line no-control-regex -- colours
    const lines = shown.replaceAll(/\u001b\[\d+m/g, "").split("\n");
    expect(lines[1]).toMatch(/^01890a5d-ac96-774b-bcce-b302099a8057 {2}\\x1b\]0;owned.*…$/);
    expect(widthOf(lines[1] ?? "")).toBeLessThanOrEqual(60);
    expect(shown).not.toContain("\u001b]0;");
    expect((await onTerminal("show", { env: { NO_COLOR: "1" } })).shown).not.toContain("\u001b");
  });

  it("asks before destructive changes", async () => {
    const asked = "Destroy it all? [y/N]";
    const yes = await onTerminal("destroy", { asked, reply: "y\n" });
    expect(yes.code).toBe(0);
    expect(yes.shown).toContain("destroyed");
    for (const reply of ["\n", "n\n", "yesterday\n", "\u0004"]) {
      const no = await onTerminal("destroy", { asked, reply, env: { NO_COLOR: "1" } });
      expect(no.code).toBe(1);
      expect(no.shown).toContain("error: not confirmed; nothing was changed");
    }
    const piped = await onTerminal("destroy < /dev/null", { env: { NO_COLOR: "1" } });
    expect(piped.code).toBe(2);
    expect(piped.shown).toContain("hint: add --yes to confirm");
    const stopped = await onTerminal("destroy", { asked, reply: "\u0003" });
    expect(stopped.code).toBe(130);
  });

  it("leaves progress as a line", async () => {
    const { shown } = await onTerminal("count", { env: { NO_COLOR: "1" } });
    expect(shown).toContain("counting 4,000 of 4,000 (100 %)\ncounted\n");
  });
});
