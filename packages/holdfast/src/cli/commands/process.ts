import { setTimeout as sleep } from "node:timers/promises";
import { DEFAULTS } from "../../defaults.js";
import { durationMs } from "../../duration.js";
import { isOutage } from "../../errors.js";
import type { Holdfast } from "../../engine/client/holdfast.js";
import type { DrainOptions } from "../../engine/worker/drain.js";
import type { WorkOptions } from "../../engine/worker/work-options.js";
import { warnIfUrlIgnored } from "../store/open.js";
import { command, type Command } from "../parse/command.js";
import { workOptions } from "../work-options.js";
import { UsageError } from "../errors.js";
import type { Output } from "../ui/output.js";
import { runJobs } from "../run-jobs.js";
import { MODULE, WORK_FLAGS } from "./worker.js";

export const processCommand: Command = command({
  name: "process",
  logs: true,
  summary: "Run due jobs and exit, or keep polling (--poll). For cron and serverless.",
  about:
    "Also fires schedules and does maintenance, such as retention and expired leases. On SIGTERM or Ctrl-C it claims no more jobs, waits up to jobs.grace_s for running ones and exits with code 0.",
  arguments: { module: MODULE },
  flags: {
    once: { kind: "switch", description: "Run at most one job." },
    poll: { kind: "switch", description: "Poll until stopped." },
    interval: {
      kind: "duration",
      min: "100ms",
      bareMs: true,
      description: "Interval of --poll, e.g. 30s or 5000 (milliseconds). Default: 5s.",
    },
    ...WORK_FLAGS,
  },
  examples: [
    { line: "process jobs.ts", description: "Run all due jobs, and those they enqueue." },
    { line: "process jobs.ts --once", description: "Run at most one job." },
    { line: "process jobs.ts --poll --interval 30s", description: "Poll every 30 seconds." },
  ],
  async run(context, { flags, args }) {
    if (flags.once && flags.poll) throw new UsageError("--once and --poll cannot be combined");
    if (flags.interval !== undefined && !flags.poll) throw new UsageError("--interval requires --poll");
    const given = workOptions(context);
    if (given === null) return 0;
    const { output } = context;
    warnIfUrlIgnored(context);
    return runJobs(context, args.module, async (hf, signal) => {
      const options = { ...drainOptions(given), signal };
      const firesSchedules = context.config.values["jobs.scheduler_enabled"];
      const duties = new PeriodicDuties(hf, firesSchedules);
      const everyMs = durationMs(flags.interval ?? "5s", "interval");
      const ran = flags.poll
        ? await poll(hf, options, { duties, everyMs, output, signal })
        : await runDue(hf, options, { duties, once: flags.once, signal });
      output.result({ ran }, (writer) => writer.line(ran === 1 ? "1 job ran" : `${ran} jobs ran`));
    });
  },
});

/** The worker options that apply to a drain. */
function drainOptions({ concurrency, queues, lease, grace }: WorkOptions): DrainOptions {
  return {
    ...(concurrency !== undefined && { concurrency }),
    ...(queues !== undefined && { queues }),
    ...(lease !== undefined && { lease }),
    ...(grace !== undefined && { grace }),
  };
}

/** What a worker does besides running jobs: schedules and maintenance. */
class PeriodicDuties {
  readonly #hf: Holdfast;
  readonly #firesSchedules: boolean;
  #maintainedAt = Number.NEGATIVE_INFINITY;

  constructor(hf: Holdfast, firesSchedules: boolean) {
    this.#hf = hf;
    this.#firesSchedules = firesSchedules;
  }

  async fire(): Promise<void> {
    if (this.#firesSchedules) await this.#hf.schedules.fireDue();
  }

  /** Skipped if the last maintenance is recent: a short polling interval must not make it more frequent than in a worker. */
  async maintain(): Promise<void> {
    const now = performance.now();
    if (now - this.#maintainedAt < DEFAULTS.maintenance.retentionMs) return;
    this.#maintainedAt = now;
    await this.#hf.maintain();
  }
}

async function runDue(
  hf: Holdfast,
  options: DrainOptions,
  { duties, once, signal }: { duties: PeriodicDuties; once: boolean; signal: AbortSignal },
): Promise<number> {
  await duties.fire();
  const ran = once ? Number(await hf.runNext(options)) : await hf.drain(options);
  // After a signal, exit without delay.
  if (!signal.aborted) await duties.maintain();
  return ran;
}

interface Polling {
  duties: PeriodicDuties;
  everyMs: number;
  output: Output;
  signal: AbortSignal;
}

/** Drains and duties run independently: a drain may take hours while jobs keep arriving. */
async function poll(
  hf: Holdfast,
  options: DrainOptions,
  { duties, everyMs, output, signal }: Polling,
): Promise<number> {
  let ran = 0;
  let inOutage = false;
  /** Repeats `work` until the signal. An outage of the store is logged once, and retried at every interval. */
  async function repeat(work: () => Promise<unknown>): Promise<void> {
    while (!signal.aborted) {
      try {
        await work();
        inOutage = false;
      } catch (error) {
        if (!isOutage(error)) throw error;
        if (!inOutage) output.warn(`${(error as Error).message}; retrying every interval`);
        inOutage = true;
      }
      await sleep(everyMs, null, { signal }).catch(() => {});
    }
  }
  const drain = async (): Promise<void> => {
    const more = await hf.drain(options);
    ran += more;
  };
  const doDuties = async (): Promise<void> => {
    await duties.fire();
    await duties.maintain();
  };
  await Promise.all([repeat(doDuties), repeat(drain)]);
  return ran;
}
