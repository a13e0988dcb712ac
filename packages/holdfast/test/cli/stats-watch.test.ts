import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { widthOf } from "#src/cli/ui/text-width.js";
import { SLOW, workspace, type Workspace } from "./workspace.js";
import { MAIN, plainEnv } from "./scene.js";

// `script` of util-linux runs a command on a new terminal.
const hasTerminal = spawnSync("script", ["--version"]).stdout?.toString().includes("util-linux") === true;

const ENTER = "\u001b[?1049h\u001b[?25l\u001b[?7l";
const LEAVE = "\u001b[?7h\u001b[?25h\u001b[?1049l";
const HOME = "\u001b[H";

const onFile = (cwd: string): string => `sqlite:${join(cwd, "jobs.db")}`;

interface Watched {
  shown: () => string;
  /** Every frame that was drawn so far, as the lines that a terminal shows. */
  frames: () => string[][];
  type: (keys: string) => void;
  /** The terminal's file, and the command's process. */
  tty: string;
  pid: number;
  ended: Promise<number | null>;
}

// oxlint-disable-next-line no-control-regex -- colours, and what clears lines
const CODES = /\u001b\[\d*[mKJ]/g;

/** `stats --watch` on a terminal, of 60 columns and 10 rows by default. */
async function watch(
  { cwd, store }: Workspace,
  { args = "--interval 100", env = {}, size = "cols 60 rows 10" } = {},
): Promise<Watched> {
  const command = `${process.execPath} ${MAIN} stats --watch ${args}`;
  const line = `stty ${size} -echo; tty; echo "$$"; exec ${command}`;
  const child = spawn("script", ["-qefc", line, "/dev/null"], {
    cwd,
    env: plainEnv({ TERM: "xterm", HOLDFAST_STORE: store, SHELL: "/bin/sh", ...env }),
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let shown = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (shown += text));
  const begins = await until("the shell", () => /^(\/\S+)\r\n(\d+)\r\n/.exec(shown) ?? undefined, 60_000);
  const [before, tty = "", pid = ""] = begins;
  return {
    tty,
    pid: Number(pid),
    shown: () => shown.slice(before.length),
    frames: () =>
      shown
        .split(LEAVE)[0]
        ?.split(HOME)
        .slice(1)
        .map((frame) => frame.replaceAll(CODES, "").trimEnd().split(/\r+\n/)) ?? [],
    type: (keys) => void child.stdin.write(keys),
    ended: once(child, "close").then(([code]) => code as number | null),
  };
}

describe.skipIf(!hasTerminal)("stats --watch on a terminal", () => {
  it("redraws in place and restores the terminal", SLOW, async () => {
    const ws = await workspace(onFile);
    await ws.hf.enqueueNamed("mail");
    const { shown, frames, type, ended } = await watch(ws);
    await until("a frame", () => frames().some((lines) => lines.join(" ").includes("all")), 60_000);
    await ws.hf.enqueueNamed("mail");
    await until(
      "the other job",
      () =>
        frames()
          .at(-1)
          ?.some((line) => /^all +2 /.test(line)) === true,
      60_000,
    );
    type("\u0003");
    expect(await ended).toBe(130);
    expect(shown().split(ENTER)).toHaveLength(2);
    expect(shown().startsWith(`${ENTER}${HOME}`)).toBe(true);
    const [, after = "", ...more] = shown().split(LEAVE);
    expect(more).toEqual([]);
    expect(after).toMatch(/^\S*\d{4}-\d\d-\d\d .+\r\n.+pend.+\r\n/);
    expect(after).toContain("last minute:");
  });

  it("shows the busiest queues that fit", SLOW, async () => {
    const ws = await workspace(onFile);
    for (let n = 0; n < 20; n++) await ws.hf.enqueueNamed("mail", null, { queue: `queue-${n}` });
    await ws.hf.enqueueNamed("mail", null, { queue: "queue-17" });
    const { frames, type, ended, shown } = await watch(ws);
    await until("a frame", () => frames().length >= 2, 60_000);
    const [lines = []] = frames();
    expect(lines).toHaveLength(10);
    expect(lines.filter((line) => widthOf(line) > 60)).toEqual([]);
    expect(lines.filter((line) => line.startsWith("queue-"))).toHaveLength(3);
    expect(lines.some((line) => /^queue-17 +2 /.test(line))).toBe(true);
    expect(lines).toContain("… 17 more");
    expect(lines.some((line) => /^all +21 /.test(line))).toBe(true);
    expect(lines.at(-1)).toMatch(/^last minute: .+…$/);
    type("\u0003");
    await ended;
    // The last frame, outside of the alternate screen, has all queues.
    expect(shown().split(LEAVE)[1]).toContain("queue-19");
  });

  it("assumes 80 by 24 if the size is unknown", SLOW, async () => {
    const ws = await workspace(onFile);
    for (let n = 0; n < 30; n++) await ws.hf.enqueueNamed("mail", null, { queue: `queue-${n}` });
    const { frames, type, ended } = await watch(ws, { size: "cols 0 rows 0" });
    await until("a frame", () => frames().length >= 2, 60_000);
    const [lines = []] = frames();
    expect(lines).toHaveLength(24);
    expect(lines.filter((line) => widthOf(line) > 80)).toEqual([]);
    expect(lines.some((line) => /^all +30 /.test(line))).toBe(true);
    type("\u0003");
    expect(await ended).toBe(130);
  });

  it("redraws after a resize", SLOW, async () => {
    const ws = await workspace(onFile);
    for (let n = 0; n < 20; n++) await ws.hf.enqueueNamed("mail", null, { queue: `queue-${n}` });
    // One frame per hour, so the second is due to the resize.
    const { frames, tty, type, ended } = await watch(ws, { args: "--interval 1h" });
    await until("the first frame", () => frames()[0]?.length === 10, 60_000);
    expect(spawnSync("stty", ["-F", tty, "rows", "20"]).status).toBe(0);
    await until("a frame of the new size", () => frames()[1]?.length === 20, 60_000);
    type("\u0003");
    expect(await ended).toBe(130);
  });

  it("restores the terminal after SIGTERM and errors", SLOW, async () => {
    const ws = await workspace(onFile);
    const stopped = await watch(ws);
    await until("a frame", () => stopped.frames().length > 0, 60_000);
    process.kill(stopped.pid, "SIGTERM");
    expect(await stopped.ended).toBe(143);
    expect(stopped.shown().split(LEAVE)).toHaveLength(2);
    const serving = ws.start("serve", "--port", "0");
    await until("the server to listen", () => serving.stdout().includes("http://"), 60_000);
    const [url = ""] = /http:\S+/.exec(serving.stdout()) ?? [];
    const watched = await watch(ws, { args: `--interval 100 --url ${url}` });
    await until("a frame", () => watched.frames().length > 0, 60_000);
    serving.child.kill("SIGKILL");
    expect(await watched.ended).toBe(1);
    expect(watched.shown().split(LEAVE)[1]).toContain("cannot be reached");
  });

  it("prints page after page with TERM=dumb", SLOW, async () => {
    const { shown, type, ended } = await watch(await workspace(onFile), { env: { TERM: "dumb" } });
    await until("two pages", () => shown().split("last minute:").length > 2, 60_000);
    type("\u0003");
    expect(await ended).toBe(130);
    expect(shown()).not.toContain("\u001b");
  });
});

describe("stats --watch in a pipe", () => {
  it("prints pages, or JSON lines", SLOW, async () => {
    const { start } = await workspace(onFile);
    const people = start("stats", "--watch", "--interval", "100ms");
    await until("two pages", () => people.stdout().split("last minute:").length > 2, 60_000);
    people.child.kill("SIGINT");
    expect(await people.ended).toBe(130);
    expect(people.stdout()).not.toContain("\u001b");
    const programs = start("stats", "--watch", "--interval", "100ms", "--json");
    await until("two lines", () => programs.stdout().split("\n").length > 2, 60_000);
    programs.child.kill("SIGINT");
    expect(await programs.ended).toBe(130);
    const lines = programs.stdout().trimEnd().split("\n");
    for (const line of lines) expect(JSON.parse(line)).toMatchObject({ states: { pending: 0 } });
  });
});
