import { setTimeout as sleep } from "node:timers/promises";
import { DEFAULTS } from "../../defaults.js";
import { durationMs } from "../../duration.js";
import { isOutage } from "../../errors.js";
import type { Holdfast } from "../../engine/client/holdfast.js";
import type { DrainOptions } from "../../engine/worker/drain.js";
import type { WorkOptions } from "../../engine/worker/work-options.js";
import { tellStoreOnly } from "../store/bare-store.js";
import { command, type Command } from "../parse/command.js";
import { workOptions } from "../work-options.js";
import { BadUsage } from "../errors.js";
import type { Output } from "../ui/output.js";
import { runJobs } from "../run-jobs.js";
import { MODULE, WORK } from "./worker.js";

export const processCommand: Command = command({
  name: "process",
  logs: true,
  summary: "Runs what is due and ends, or goes on looking: for cron and for places without a service.",
  about:
    "SIGTERM and Ctrl-C end it: no more jobs are claimed, and those under way have jobs.grace_s to end; the exit code is 0. Schedules are fired, and retention and lost leases looked after, between the looks too.",
  arguments: { module: MODULE },
  flags: {
    once: { kind: "switch", says: "Run one job, if one is due." },
    poll: { kind: "switch", says: "Look again every interval, until Ctrl-C." },
    interval: {
      kind: "duration",
      least: "100ms",
      bareMs: true,
      says: "How often with --poll: 30s, or milliseconds such as 5000. Default 5s.",
    },
    ...WORK,
  },
  examples: [
    { line: "process jobs.ts", says: "All that is due now, and what that enqueues." },
    { line: "process jobs.ts --once", says: "One job at most." },
    { line: "process jobs.ts --poll --interval 30s", says: "Every half minute." },
  ],
  async run(context, { flags, args }) {
    if (flags.once && flags.poll) throw new BadUsage("--once and --poll do not go together");
    if (flags.interval !== undefined && !flags.poll) throw new BadUsage("--interval goes with --poll");
    const given = workOptions(context);
    if (given === null) return 0;
    const { output } = context;
    tellStoreOnly(context);
    return runJobs(context, args.module, async (hf, signal) => {
      const options = { ...tickOptions(given), signal };
      const firesSchedules = context.config.values["jobs.scheduler_enabled"];
      const beside = new Beside(hf, firesSchedules);
      const everyMs = durationMs(flags.interval ?? "5s", "interval");
      const ran = flags.poll
        ? await poll(hf, options, { beside, everyMs, output, signal })
        : await runDue(hf, options, { beside, once: flags.once, signal });
      output.answer({ ran }, (page) => page.line(ran === 1 ? "1 job ran" : `${ran} jobs ran`));
    });
  },
});

/** What of a worker's options concerns a single look. */
function tickOptions({ concurrency, queues, lease, grace }: WorkOptions): DrainOptions {
  return {
    ...(concurrency !== undefined && { concurrency }),
    ...(queues !== undefined && { queues }),
    ...(lease !== undefined && { lease }),
    ...(grace !== undefined && { grace }),
  };
}

/** What a worker does beside running jobs, step by step. */
class Beside {
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

  /** However often jobs are looked for, old ones are not looked for more often than by a worker. */
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
  { beside, once, signal }: { beside: Beside; once: boolean; signal: AbortSignal },
): Promise<number> {
  await beside.fire();
  const ran = once ? Number(await hf.runNext(options)) : await hf.drain(options);
  // Somebody waits for the end.
  if (!signal.aborted) await beside.maintain();
  return ran;
}

interface Polling {
  beside: Beside;
  everyMs: number;
  output: Output;
  signal: AbortSignal;
}

/** Jobs may come for hours without a pause: schedules and maintenance do not wait for one. */
async function poll(
  hf: Holdfast,
  options: DrainOptions,
  { beside, everyMs, output, signal }: Polling,
): Promise<number> {
  let ran = 0;
  let isOut = false;
  /** Every interval until the signal. A store that does not answer is told once, and asked again next time. */
  async function again(work: () => Promise<unknown>): Promise<void> {
    while (!signal.aborted) {
      try {
        await work();
        isOut = false;
      } catch (error) {
        if (!isOutage(error)) throw error;
        if (!isOut) output.warn(`${(error as Error).message}; it is asked again every interval`);
        isOut = true;
      }
      await sleep(everyMs, null, { signal }).catch(() => {});
    }
  }
  const look = async (): Promise<void> => {
    const more = await hf.drain(options);
    ran += more;
  };
  const lookAfter = async (): Promise<void> => {
    await beside.fire();
    await beside.maintain();
  };
  await Promise.all([again(lookAfter), again(look)]);
  return ran;
}
