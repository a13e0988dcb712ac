import { spawnSync } from "node:child_process";
import { chmodSync, chownSync, existsSync, readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { holdfastCommand, MAIN } from "../cli/scene.js";
import { connect, open, tempFile, tempFolder } from "./scene.js";

const SCRIPT = fileURLToPath(new URL("../fixtures/open-once.mjs", import.meta.url));
const READ_ONLY = {
  code: "STORE_READ_ONLY",
  message: expect.stringMatching(/read-only for this process.+write access/) as string,
};
const OTHER_UID = 65_534;
const isRoot = process.getuid?.() === 0;

interface Outcome {
  opened: unknown;
  enqueued: unknown;
  counted: unknown;
}

/** Runs Node as a user without root's permissions. */
function asOrdinaryUser(args: readonly string[], skip: (reason: string) => never): { stdout: string; stderr: string } {
  if (process.platform === "win32") skip("Windows has other file permissions");
  const as = isRoot ? { uid: OTHER_UID, gid: OTHER_UID } : {};
  const probe = spawnSync(process.execPath, ["--check", SCRIPT], as);
  if (probe.status !== 0) skip(`user ${OTHER_UID} cannot read this folder`);
  return spawnSync(process.execPath, args, { ...as, encoding: "utf8" });
}

function outcomeFor(file: string, mustExist: boolean, skip: (reason: string) => never): Outcome {
  const { stdout, stderr } = asOrdinaryUser([SCRIPT, file, String(mustExist)], skip);
  if (stdout === "") throw new Error(stderr);
  return JSON.parse(stdout) as Outcome;
}

/** A database with a job, owned by that user. */
async function database(): Promise<string> {
  const file = tempFile();
  const hf = await open(file);
  await hf.enqueueNamed("mail");
  await hf.close();
  if (isRoot) for (const path of [dirname(file), file]) chownSync(path, OTHER_UID, OTHER_UID);
  return file;
}

describe("a read-only file", () => {
  it("is refused at open", async ({ skip }) => {
    const file = await database();
    chmodSync(file, 0o444);
    expect(outcomeFor(file, false, skip)).toEqual({ opened: READ_ONLY, enqueued: null, counted: null });
    chmodSync(file, 0o644);
    expect(outcomeFor(file, false, skip)).toEqual({ opened: "done", enqueued: "done", counted: "done" });
  });

  it("gets no log next to it when it is refused", async ({ skip }) => {
    const file = await database();
    chmodSync(file, 0o444);
    outcomeFor(file, false, skip);
    expect(readdirSync(dirname(file))).toEqual(["jobs.db"]);
  });

  it("can be read with mustExist, and refuses a write", async ({ skip }) => {
    const file = await database();
    chmodSync(file, 0o444);
    expect(outcomeFor(file, true, skip)).toEqual({ opened: "done", enqueued: READ_ONLY, counted: "done" });
  });

  it("is read by commands that only read", async ({ skip }) => {
    const file = await database();
    chmodSync(file, 0o444);
    const args = ["stats", "--json", "--store", `sqlite:${file}`];
    const { stdout, stderr } = asOrdinaryUser([MAIN, ...args], skip);
    expect(stderr).toBe("");
    expect(JSON.parse(stdout)).toMatchObject({ states: { pending: 1 } });
    const { stderr: refusal } = asOrdinaryUser([MAIN, "queues", "pause", "default", "--store", `sqlite:${file}`], skip);
    expect(refusal).toMatch(/^error: .+jobs\.db is read-only for this process/);
  });

  it("is printed once by a command that changes many jobs", async ({ skip }) => {
    const file = await database();
    const db = connect(file);
    const ended = Date.now() - 60_000;
    db.exec(`UPDATE holdfast_jobs SET state = 'completed', finished_at = ${ended}`);
    db.close();
    chmodSync(file, 0o444);
    const args = ["jobs", "purge-completed", "--before", "1s", "--yes", "--store", `sqlite:${file}`];
    const { stdout, stderr } = asOrdinaryUser([MAIN, ...args], skip);
    expect(stdout).toBe("");
    expect(stderr).toMatch(/^error: [^\n]+jobs\.db is read-only for this process[^\n]+\n$/);
  });
});

it("another user's read leaves no log that locks the owner out", async ({ skip }) => {
  if (!isRoot) skip("only root can act as two users");
  const file = await database();
  for (const path of [dirname(file), file]) chownSync(path, 1, 1);
  chmodSync(dirname(file), 0o777);
  expect(outcomeFor(file, true, skip).opened).toMatchObject({
    code: "STORE_READ_ONLY",
    message: expect.stringMatching(/belongs to another user.+read it as its owner/) as string,
  });
  for (const command of ["stats", "doctor"]) {
    const { stderr } = asOrdinaryUser([MAIN, command, "--store", `sqlite:${file}`], skip);
    expect(stderr).toMatch(/belongs to another user/);
  }
  expect(readdirSync(dirname(file))).toEqual([basename(file)]);
  // While a process of the owner has the file open, the log exists and belongs to the owner.
  const hf = await open(file);
  expect(asOrdinaryUser([MAIN, "stats", "--json", "--store", `sqlite:${file}`], skip).stderr).toBe("");
  await hf.close();
});

it("a read-only log is refused at open", async ({ skip }) => {
  const file = await database();
  const db = connect(file);
  db.exec("UPDATE holdfast_jobs SET updated_at = updated_at + 1");
  for (const part of ["-wal", "-shm"]) chmodSync(`${file}${part}`, 0o444);
  expect(outcomeFor(file, false, skip).opened).toEqual(READ_ONLY);
});

it("a read-only folder is refused and named", async ({ skip }) => {
  const file = await database();
  chmodSync(dirname(file), 0o555);
  const { opened } = outcomeFor(file, false, skip);
  chmodSync(dirname(file), 0o755);
  expect(opened).toEqual({
    code: "STORE_READ_ONLY",
    message: expect.stringMatching(
      /^the folder .+ is read-only for this process, and SQLite must create jobs\.db-wal/,
    ) as string,
  });
});

it("a database that another process is writing to opens", async () => {
  const file = tempFile();
  await open(file);
  connect(file).exec("BEGIN IMMEDIATE");
  await open(file);
});

it("mustExist creates neither a file nor a folder", async () => {
  const file = join(tempFolder(), "deep", "typo.db");
  const { stdout } = spawnSync(process.execPath, [SCRIPT, file, "true"], { encoding: "utf8" });
  expect(JSON.parse(stdout)).toMatchObject({
    opened: { code: "STORE_UNREADABLE", message: `file ${file} does not exist; check the path` },
  });
  expect(existsSync(dirname(file))).toBe(false);
});

it("a command that only reads creates no file", async () => {
  const cwd = tempFolder();
  await holdfastCommand(["stats", "--store", "sqlite:typo.db"], { cwd });
  expect(readdirSync(cwd)).toEqual([]);
});
