import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { SLOW } from "./workspace.js";
import { holdfastCommand, MAIN, plainEnv, type CommandResult } from "./scene.js";

const VICTIM = 12_345;
const ATTACKER = 65_534;
// Only root can change owners and run as another user, who must be able to read the command.
const canBeOthers =
  process.geteuid?.() === 0 &&
  spawnSync(process.execPath, [MAIN, "--version"], { uid: VICTIM, gid: VICTIM, env: plainEnv() }).status === 0;

/** A module that creates a file when its code runs. */
const MODULE = `import { writeFileSync } from "node:fs";
import { job } from "holdfast";
writeFileSync(new URL("ran.txt", import.meta.url), "ran");
export const mail = job({ type: "mail", run() {} });
`;

interface Shared {
  /** A shared folder with a holdfast.toml that names jobs.mjs. */
  folder: string;
  /** A subfolder of the victim, where the command runs. */
  cwd: string;
  path: (name: string) => string;
  hasRun: () => boolean;
  /** Runs the command there as this user. */
  runAs: (uid: number, args: readonly string[], env?: Readonly<Record<string, string>>) => Promise<CommandResult>;
}

/** Files of one user, above a folder of another. */
function shared(owner: number, { mode = 0o644, folderMode = 0o1777, folderOwner = 0 } = {}): Shared {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "holdfast-trust-")));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = (name: string): string => join(folder, name);
  const cwd = path("work");
  mkdirSync(cwd);
  chownSync(cwd, VICTIM, VICTIM);
  writeFileSync(path("holdfast.toml"), '[jobs]\nmodule = "jobs.mjs"\n');
  writeFileSync(path("jobs.mjs"), MODULE);
  symlinkSync(join(import.meta.dirname, "../../../../node_modules"), path("node_modules"));
  for (const name of ["holdfast.toml", "jobs.mjs"]) {
    chownSync(path(name), owner, owner);
    chmodSync(path(name), mode);
  }
  chmodSync(folder, folderMode);
  chownSync(folder, folderOwner, folderOwner);
  return {
    folder,
    cwd,
    path,
    hasRun: () => existsSync(path("ran.txt")),
    async runAs(uid, args, env = {}) {
      const child = spawn(process.execPath, [MAIN, ...args], {
        cwd,
        uid,
        gid: uid,
        env: plainEnv({ HOLDFAST_STORE: `sqlite:${join(cwd, "jobs.db")}`, HOME: cwd, ...env }),
        stdio: ["ignore", "pipe", "pipe"],
      });
      const [stdout, stderr, [code]] = await Promise.all([
        text(child.stdout),
        text(child.stderr),
        once(child, "close") as Promise<[number | null]>,
      ]);
      return { code, stdout, stderr };
    },
  };
}

/** Every command that loads a module, and some that only read the configuration. */
const COMMANDS: readonly (readonly string[])[] = [
  ["enqueue", "mail"],
  ["process", "--once"],
  ["worker"],
  ["dev"],
  ["serve"],
  ["jobs", "rerun", "018f4d2e-7b3a-7c11-8a55-0123456789ab"],
  ["schedules", "create", "a", "mail", "--every", "1h"],
  ["stats"],
  ["doctor"],
  ["config", "list"],
];

describe.skipIf(!canBeOthers)("a holdfast.toml found by search", () => {
  it("is rejected if another user owns it", SLOW, async () => {
    const { runAs, path, hasRun } = shared(ATTACKER);
    for (const args of COMMANDS) {
      expect({ args, ...(await runAs(VICTIM, args)) }).toEqual({
        args,
        code: 1,
        stdout: "",
        stderr:
          `error: ${path("holdfast.toml")} belongs to another user (uid ${ATTACKER}), so it is not used\n` +
          `hint: if you trust it, name it: --config ${path("holdfast.toml")}, or HOLDFAST_CONFIG\n`,
      });
    }
    expect(hasRun()).toBe(false);
  });

  it("is rejected for root, except sudo by its owner", SLOW, async () => {
    const { runAs, hasRun } = shared(ATTACKER);
    expect((await runAs(0, ["enqueue", "mail"])).stderr).toContain("belongs to another user");
    expect((await runAs(0, ["enqueue", "mail"], { SUDO_UID: String(VICTIM) })).code).toBe(1);
    expect(hasRun()).toBe(false);
    expect((await runAs(0, ["enqueue", "mail"], { SUDO_UID: String(ATTACKER) })).code).toBe(0);
    expect(hasRun()).toBe(true);
    // SUDO_UID is ignored for users other than root.
    expect((await runAs(VICTIM, ["stats"], { SUDO_UID: String(ATTACKER) })).code).toBe(1);
  });

  it("is rejected if a foreign group can write", SLOW, async () => {
    const file = shared(VICTIM, { mode: 0o664 });
    chownSync(file.path("holdfast.toml"), VICTIM, ATTACKER);
    expect((await file.runAs(VICTIM, ["enqueue", "mail"])).stderr).toContain(
      `can be written by a group of other users (gid ${ATTACKER}), so it is not used\nhint: chmod g-w `,
    );
    const folder = shared(VICTIM, { folderMode: 0o775, folderOwner: VICTIM });
    chownSync(folder.folder, VICTIM, ATTACKER);
    expect((await folder.runAs(VICTIM, ["enqueue", "mail"])).stderr).toContain(
      `is in a folder that a group of other users can write to (${folder.folder}, gid ${ATTACKER})`,
    );
    expect([file, folder].map(({ hasRun }) => hasRun())).toEqual([false, false]);
  });

  it("is used if owned by this user or root", SLOW, async () => {
    for (const owner of [VICTIM, 0]) {
      const { runAs, hasRun } = shared(owner, { mode: 0o664, folderOwner: owner });
      expect(await runAs(VICTIM, ["enqueue", "mail"])).toMatchObject({ code: 0 });
      expect({ owner, ran: hasRun() }).toEqual({ owner, ran: true });
    }
  });

  it("is rejected if it is world-writable", SLOW, async () => {
    const open = shared(VICTIM, { mode: 0o666 });
    expect((await open.runAs(VICTIM, ["enqueue", "mail"])).stderr).toBe(
      `error: ${open.path("holdfast.toml")} can be written by every user of this machine, so it is not used\n` +
        `hint: chmod o-w ${open.path("holdfast.toml")}; or if you trust it, name it: --config ${open.path("holdfast.toml")}, or HOLDFAST_CONFIG\n`,
    );
    const folder = shared(VICTIM, { folderMode: 0o777 });
    expect((await folder.runAs(VICTIM, ["enqueue", "mail"])).stderr).toContain(
      `is in a folder that every user of this machine can write to (${folder.folder}), so it is not used`,
    );
    const foreign = shared(VICTIM, { folderMode: 0o755, folderOwner: ATTACKER });
    expect((await foreign.runAs(VICTIM, ["enqueue", "mail"])).stderr).toContain(
      `is in a folder that belongs to another user (${foreign.folder}, uid ${ATTACKER}), so it is not used`,
    );
    expect([open, folder, foreign].map(({ hasRun }) => hasRun())).toEqual([false, false, false]);
  });

  it("is rejected if it is a foreign symlink", SLOW, async () => {
    const link = shared(VICTIM);
    cpSync(link.path("holdfast.toml"), join(link.cwd, "mine.toml"));
    chownSync(join(link.cwd, "mine.toml"), VICTIM, VICTIM);
    rmSync(link.path("holdfast.toml"));
    symlinkSync(join(link.cwd, "mine.toml"), link.path("holdfast.toml"));
    lchownSync(link.path("holdfast.toml"), ATTACKER, ATTACKER);
    expect((await link.runAs(VICTIM, ["stats"])).stderr).toContain("holdfast.toml belongs to another user");
    const target = shared(ATTACKER);
    symlinkSync(target.path("holdfast.toml"), join(target.cwd, "holdfast.toml"));
    lchownSync(join(target.cwd, "holdfast.toml"), VICTIM, VICTIM);
    expect((await target.runAs(VICTIM, ["stats"])).stderr).toContain(
      `${target.path("holdfast.toml")} belongs to another user`,
    );
  });

  it("is not changed if it is rejected", SLOW, async () => {
    const { runAs, path } = shared(ATTACKER);
    const before = readFileSync(path("holdfast.toml"), "utf8");
    for (const args of [
      ["config", "set", "store", "postgres://ada:secret@db/shop"],
      ["config", "unset", "jobs.module"],
    ]) {
      expect({ args, ...(await runAs(0, args)) }).toMatchObject({
        code: 1,
        stderr: expect.stringContaining("belongs to another user") as string,
      });
    }
    expect(readFileSync(path("holdfast.toml"), "utf8")).toBe(before);
  });

  it("is printed by config path", SLOW, async () => {
    const { runAs, path } = shared(ATTACKER);
    expect(await runAs(VICTIM, ["config", "path"])).toMatchObject({ code: 0, stdout: `${path("holdfast.toml")}\n` });
  });

  it("is used if named explicitly, with its module", SLOW, async () => {
    for (const how of ["flag", "variable"]) {
      const { runAs, path, hasRun } = shared(ATTACKER, { mode: 0o666 });
      const file = path("holdfast.toml");
      const ended =
        how === "flag"
          ? await runAs(VICTIM, ["enqueue", "mail", "--config", file])
          : await runAs(VICTIM, ["enqueue", "mail"], { HOLDFAST_CONFIG: file });
      expect({ how, code: ended.code, ran: hasRun() }).toMatchObject({ how, code: 0, ran: true });
    }
  });
});

describe.skipIf(!canBeOthers)("a module named by such a file", () => {
  it("is rejected if another user can write it", SLOW, async () => {
    const { runAs, path, hasRun } = shared(VICTIM);
    chownSync(path("jobs.mjs"), ATTACKER, ATTACKER);
    for (const args of COMMANDS.slice(0, 6)) {
      expect({ args, ...(await runAs(VICTIM, args)) }).toEqual({
        args,
        code: 1,
        stdout: "",
        stderr:
          `error: ${path("jobs.mjs")} belongs to another user (uid ${ATTACKER}), so it is not used\n` +
          `hint: if you trust it, name it as an argument, with --module, or with HOLDFAST_JOBS_MODULE=${path("jobs.mjs")}\n`,
      });
    }
    chownSync(path("jobs.mjs"), VICTIM, VICTIM);
    chmodSync(path("jobs.mjs"), 0o646);
    expect((await runAs(VICTIM, ["enqueue", "mail"])).stderr).toContain("can be written by every user");
    expect(hasRun()).toBe(false);
  });

  it("is used if named explicitly", SLOW, async () => {
    for (const [args, named] of [
      [["process"], "argument"],
      [["enqueue", "mail"], "flag"],
      [["enqueue", "mail"], "variable"],
    ] as const) {
      const { runAs, path, hasRun } = shared(VICTIM);
      const module = path("jobs.mjs");
      chownSync(module, ATTACKER, ATTACKER);
      const more = named === "argument" ? [module] : named === "flag" ? ["--module", module] : [];
      const env = named === "variable" ? { HOLDFAST_JOBS_MODULE: module } : undefined;
      expect({ named, ...(await runAs(VICTIM, [...args, ...more], env)) }).toMatchObject({ named, code: 0 });
      expect({ named, ran: hasRun() }).toEqual({ named, ran: true });
    }
  });

  it("is rejected with a foreign tsconfig.json", SLOW, async () => {
    const { runAs, path, cwd, hasRun } = shared(VICTIM);
    // Only jiti can load this. The attacker's tsconfig.json maps "@/db" to the attacker's module.
    writeFileSync(join(cwd, "jobs.ts"), 'import "@/db";\nexport enum A { B }\n');
    writeFileSync(path("tsconfig.json"), `{ "compilerOptions": { "paths": { "@/db": ["./jobs.mjs"] } } }`);
    chownSync(path("tsconfig.json"), ATTACKER, ATTACKER);
    const refused = await runAs(VICTIM, ["process", "jobs.ts"]);
    expect(refused.stderr).toContain(`${path("tsconfig.json")} belongs to another user`);
    expect(hasRun()).toBe(false);
    chownSync(path("tsconfig.json"), VICTIM, VICTIM);
    await runAs(VICTIM, ["process", "jobs.ts"]);
    expect(hasRun()).toBe(true);
  });
});

describe.skipIf(process.platform === "win32")("config set store", () => {
  const password = "postgres://ada:secret@127.0.0.1:1/shop";

  function empty(): string {
    const cwd = mkdtempSync(join(tmpdir(), "holdfast-mode-"));
    onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
    return cwd;
  }
  const modeOf = (cwd: string): string => (statSync(join(cwd, "holdfast.toml")).mode & 0o777).toString(8);

  it("creates a file with a password as 0600", SLOW, async () => {
    for (const [value, mode] of [
      [password, "600"],
      ["postgres://db/shop?options=-c%20x", "600"],
      ["sqlite:jobs.db", "644"],
    ] as const) {
      const cwd = empty();
      const { stderr } = await holdfastCommand(["config", "set", "store", value], { cwd });
      expect({ value, mode: modeOf(cwd) }).toEqual({ value, mode });
      expect(stderr).not.toContain("mode 0600");
    }
  });

  it("restricts a readable file to its owner", SLOW, async () => {
    for (const [before, after] of [
      [0o644, "600"],
      [0o664, "600"],
      // The group has access on purpose.
      [0o640, "640"],
    ] as const) {
      const cwd = empty();
      writeFileSync(join(cwd, "holdfast.toml"), "");
      chmodSync(join(cwd, "holdfast.toml"), before);
      const { code, stderr } = await holdfastCommand(["config", "set", "store", password], { cwd });
      expect({ before, code, mode: modeOf(cwd) }).toEqual({ before, code: 0, mode: after });
      const note = "holdfast.toml was readable by every user; now only by its owner (mode 0600)\n";
      expect({ before, noted: stderr.includes(note) }).toEqual({ before, noted: after === "600" });
      await holdfastCommand(["config", "set", "jobs.grace_s", "9"], { cwd });
      expect(modeOf(cwd)).toBe(after);
    }
  });

  it("reads the value from stdin", SLOW, async () => {
    const cwd = empty();
    const ended = await holdfastCommand(["config", "set", "store", "-"], { cwd, input: `${password}\n` });
    expect(ended).toMatchObject({ code: 0, stdout: "store = postgres://ada:***@127.0.0.1:1/shop in holdfast.toml\n" });
    expect(readFileSync(join(cwd, "holdfast.toml"), "utf8")).toBe(`store = "${password}"\n`);
  });
});
