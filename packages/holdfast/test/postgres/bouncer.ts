import { execFileSync, spawn } from "node:child_process";
import { accessSync, constants, chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { onTestFinished } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { freePort } from "../free-port.js";

/** The PgBouncer of this machine, or the one that `PGBOUNCER` names; null if there is none. */
export const BOUNCER: { command: string; version: string; keepsPrepared: boolean } | null = find();

function find(): typeof BOUNCER {
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/sbin"];
  const candidates = [process.env["PGBOUNCER"] ?? "", ...folders.map((folder) => join(folder, "pgbouncer"))];
  const command = candidates.find((path) => path !== "" && isExecutable(path));
  if (command === undefined) return null;
  const [, version = "0"] = /PgBouncer ([\d.]+)/.exec(execFileSync(command, ["--version"], { encoding: "utf8" })) ?? [];
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return { command, version, keepsPrepared: major > 1 || minor >= 21 };
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * Starts a PgBouncer in transaction mode with two connections to the server, and returns its address. It is stopped when the
 * test ends.
 */
export async function startBouncer(serverUrl: string, { prepared = 0 }: { prepared?: number } = {}): Promise<string> {
  if (BOUNCER === null) throw new Error("no PgBouncer");
  const server = new URL(serverUrl);
  const folder = mkdtempSync(join(tmpdir(), "holdfast-bouncer-"));
  const port = await freePort();
  const settings = {
    listen_addr: "127.0.0.1",
    listen_port: port,
    unix_socket_dir: "",
    auth_type: "any",
    pool_mode: "transaction",
    default_pool_size: 2,
    max_client_conn: 100,
    ...(BOUNCER.keepsPrepared ? { max_prepared_statements: prepared } : {}),
  };
  const to = `host=${server.hostname} port=${server.port || 5432} user=${server.username} password=${server.password}`;
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`);
  const config = join(folder, "pgbouncer.ini");
  writeFileSync(config, `[databases]\n* = ${to}\n[pgbouncer]\n${lines.join("\n")}\n`);
  chmodSync(folder, 0o755);
  // PgBouncer refuses to run as root.
  const asUser = process.getuid?.() === 0 ? ["-u", "nobody"] : [];
  const child = spawn(BOUNCER.command, ["-q", ...asUser, config], { stdio: ["ignore", "ignore", "pipe"] });
  let complaint = "";
  child.stderr.on("data", (text) => (complaint += String(text)));
  onTestFinished(async () => {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    if (child.kill("SIGKILL")) await ended;
    rmSync(folder, { recursive: true, force: true });
  });
  await until("PgBouncer to listen", async () => {
    if (child.exitCode !== null) throw new Error(`PgBouncer ended: ${complaint}`);
    return isListening(port);
  });
  server.hostname = "127.0.0.1";
  server.port = String(port);
  return server.href;
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true));
    socket.once("error", () => resolve(false));
    socket.once("close", () => socket.destroy());
    socket.once("connect", () => socket.destroy());
  });
}
