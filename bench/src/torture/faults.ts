import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { record } from "./history.js";
import type { Fault, Moment, Place } from "./plan.js";

/** What every job of a round gets in its input. */
export interface Round {
  /** The folder of the round: its history, and a file for each fault that was injected. */
  folder: string;
  /** How long a paused process is stopped. */
  pauseMs: number;
}

export interface WithFaults {
  round: Round;
  faults: readonly Fault[];
}

export function historyFile({ folder }: Pick<Round, "folder">): string {
  return join(folder, "history.jsonl");
}

/** What is known of a job that this process has claimed. */
interface KnownJob extends WithFaults {
  passed: Map<string, number>;
}

/** The faults of this process. It injects them into itself, at exactly the place that the plan names. */
export class Faults {
  readonly #jobs = new Map<string, KnownJob>();

  /** Remembers the faults of a job, for the places in the store where only the id of the job is known. */
  know(job: string, { round, faults }: WithFaults): void {
    if (!this.#jobs.has(job)) this.#jobs.set(job, { round, faults, passed: new Map() });
  }

  historyOf(job: string): string | null {
    const known = this.#jobs.get(job);
    return known === undefined ? null : historyFile(known.round);
  }

  /** Injects the faults of a place that a job has reached. */
  async at(job: string, place: Place, moment: Moment, step?: string): Promise<void> {
    const fault = this.#next(job, place, moment, step);
    if (fault !== null) await this.#inject(job, fault);
  }

  /** Calls the store, with faults before, during and after the call. */
  async around<Result>(
    job: string,
    place: Place,
    step: string | undefined,
    call: () => Promise<Result>,
  ): Promise<Result> {
    await this.at(job, place, "before", step);
    const calling = call();
    const during = this.#next(job, place, "during", step);
    if (during !== null) {
      await Promise.race([calling.catch(() => {}), sleep(during.delayMs)]);
      await this.#inject(job, during);
    }
    const result = await calling;
    await this.at(job, place, "after", step);
    return result;
  }

  #next(job: string, place: Place, moment: Moment, step: string | undefined): Fault | null {
    const known = this.#jobs.get(job);
    if (known === undefined) return null;
    for (const fault of known.faults) {
      if (fault.place !== place || fault.moment !== moment || fault.step !== step) continue;
      const passed = known.passed.get(fault.id) ?? 0;
      known.passed.set(fault.id, passed + 1);
      if (passed >= fault.skip && isFirst(known.round, fault)) return fault;
    }
    return null;
  }

  async #inject(job: string, fault: Fault): Promise<void> {
    const { round } = this.#jobs.get(job) as KnownJob;
    record(historyFile(round), { did: "fault", fault, job });
    if (fault.action === "kill") {
      process.kill(process.pid, "SIGKILL");
      return;
    }
    // The parent, which wakes this process up, must know before it stops.
    await new Promise<void>((resolve) => {
      process.send?.({ kind: "pausing", forMs: round.pauseMs }, () => resolve());
    });
    process.kill(process.pid, "SIGSTOP");
  }
}

/** One process creates the file; a fault is not injected twice. */
function isFirst({ folder }: Round, { id }: Fault): boolean {
  try {
    closeSync(openSync(join(folder, `fault-${id}`), "wx"));
    return true;
  } catch {
    return false;
  }
}
