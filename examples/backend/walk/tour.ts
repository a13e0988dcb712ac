import { setTimeout as sleep } from "node:timers/promises";
import type { TokenRole } from "holdfast";
import type { LoadedConfig } from "holdfast/config";
import { startBackend, type Backend } from "../backend.js";
import { check } from "./check.js";
import { runCommand, type CommandResult } from "./command.js";

/** The fields of a job that the stories read. */
export interface Job {
  id: string;
  state: string;
  attempt: number;
  output?: unknown;
  error?: { message: string };
}

export interface Reply<Body> {
  status: number;
  body: Body;
}

/** Reads the settings, with more variables. */
export type Settings = (env?: Readonly<Record<string, string>>) => LoadedConfig;

interface CallOptions {
  /** The role of the caller; null for a request without a token. Default: operator. */
  role?: TokenRole | null;
  body?: unknown;
}

/** A backend with callers: what the stories use. */
export class Tour {
  readonly databaseUrl: string;
  readonly tokens: Record<TokenRole, string>;
  readonly settings: Settings;
  #backend: Backend;

  private constructor(
    { databaseUrl, settings }: { databaseUrl: string; settings: Settings },
    backend: Backend,
    tokens: Record<TokenRole, string>,
  ) {
    this.databaseUrl = databaseUrl;
    this.settings = settings;
    this.#backend = backend;
    this.tokens = tokens;
  }

  static async start(databaseUrl: string, settings: Settings): Promise<Tour> {
    const backend = await startBackend({ databaseUrl, config: settings() });
    const create = async (role: TokenRole): Promise<string> => {
      const { token } = await backend.hf.tokens.create({ name: role, role, ...(role === "user" && { user: "ada" }) });
      return token;
    };
    return new Tour({ databaseUrl, settings }, backend, {
      user: await create("user"),
      viewer: await create("viewer"),
      operator: await create("operator"),
      admin: await create("admin"),
    });
  }

  /** Changes with each restart. */
  get backend(): Backend {
    return this.#backend;
  }

  /** With these variables. Without the queue, the pruner runs every second, because the first run is otherwise after a minute. */
  async restart(env: Readonly<Record<string, string>> = {}): Promise<void> {
    await this.#backend.stop();
    const config = this.settings(env);
    this.#backend = await startBackend({ databaseUrl: this.databaseUrl, config, pruneEvery: "1s" });
  }

  /** Calls the admin API over HTTP. */
  async call<Body>(method: string, path: string, { role = "operator", body }: CallOptions = {}): Promise<Reply<Body>> {
    const response = await fetch(`${this.#backend.url}/ops/api/admin${path}`, {
      method,
      headers: {
        ...(role !== null && { authorization: `Bearer ${this.tokens[role]}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Body };
  }

  /** The command, as an operator uses it from another machine: it calls the admin API. */
  commandByApi(...args: string[]): Promise<CommandResult> {
    return runCommand(args, { HOLDFAST_URL: `${this.#backend.url}/ops`, HOLDFAST_TOKEN: this.tokens.operator });
  }

  /** The command on the machine of the backend: it uses the database. */
  command(args: readonly string[], env: Record<string, string> = {}): Promise<CommandResult> {
    return runCommand(args, { HOLDFAST_STORE: this.databaseUrl, ...env });
  }

  /** Runs a schedule now, and returns the id of the job. */
  async runNow(schedule: string): Promise<string> {
    const { status, body } = await this.call<{ id: string }>("POST", `/schedules/${schedule}/run`);
    check(status === 201, `The schedule ${schedule} could not be run: the API returned ${status}.`);
    return body.id;
  }

  async job(id: string): Promise<Job> {
    return (await this.call<Job>("GET", `/jobs/${id}`)).body;
  }

  /** Waits for the end of a job. */
  async finished(id: string): Promise<Job> {
    return this.waitFor(`job ${id} ends`, async () => {
      const job = await this.job(id);
      return ["completed", "dead", "cancelled"].includes(job.state) ? job : null;
    });
  }

  async waitFor<Found>(what: string, look: () => Promise<Found | null>): Promise<Found> {
    for (const deadline = Date.now() + 30_000; Date.now() < deadline;) {
      const found = await look();
      if (found !== null) return found;
      await sleep(50);
    }
    throw new Error(`Waited 30 s until ${what}.`);
  }

  async count(table: string): Promise<number> {
    const { rows } = await this.#backend.pool.query<{ n: number }>(`SELECT count(*)::integer AS n FROM ${table}`);
    return rows[0]?.n ?? 0;
  }

  async sql(text: string): Promise<void> {
    await this.#backend.pool.query(text);
  }

  stop(): Promise<void> {
    return this.#backend.stop();
  }
}

export interface Story {
  title: string;
  /** `print` shows a line of the story. */
  run: (tour: Tour, print: (line: string) => void) => Promise<void>;
}
