import { realpathSync } from "node:fs";
import { join, sep } from "node:path";
import type { Bed, Place } from "../bed.js";
import type { Build } from "./builds.js";
import { CALLS, type Call, type CallTimes, type Kind, type Orders, type Results } from "./protocol.js";
import { startSide, type Side } from "./side.js";

/**
 * The sizes of a comparison. Each round has new processes and new stores, because two processes of one build differ
 * too.
 */
export interface Plan {
  rounds: number;
  /** Jobs of one call: each build makes the three calls with each of these sizes. */
  sizes: readonly number[];
  /** How often per round, and how often before that to warm up. */
  times: number;
  warmUp: number;
  /** Jobs of a drain, which are also the backlog during calls. */
  drainJobs: number;
  /** Drains of each build per round, after one to warm up. */
  drains: number;
}

export interface Builds {
  before: Build;
  after: Build;
}

/** The times of both builds for the same operation, measured one right after the other. */
export interface Pair {
  before: number;
  after: number;
}

/** The times of one operation, by round. */
export interface Measure {
  name: string;
  unit: "ms" | "jobs/s";
  rounds: Pair[][];
}

type Sides = Record<keyof Builds, Side>;

/** Lets both builds do the same operations alternately, and pairs times that were measured close together. */
export async function alternate(
  bed: Bed,
  builds: Builds,
  plan: Plan,
  onRound: (round: number) => void,
): Promise<Measure[]> {
  const measures = new Map<string, Measure>();
  const measure = (name: string, unit: Measure["unit"], round: number): Pair[] => {
    const known = measures.get(name) ?? { name, unit, rounds: [] };
    measures.set(name, known);
    return (known.rounds[round] ??= []);
  };
  for (let round = 0; round < plan.rounds; round++) {
    onRound(round);
    await inFreshStores(bed, builds, plan, round, async (turns) => {
      const [smallest = 1] = plan.sizes;
      for (let time = 0; time < plan.warmUp; time++) await turns.ask("calls", { sizes: plan.sizes });
      for (let time = 0; time < plan.times; time++) {
        // The first calls do not count, because the caches still contain the data of the other build.
        const { before, after } = await turns.ask("calls", { sizes: [smallest, ...plan.sizes] });
        for (const [index, size] of plan.sizes.entries()) {
          for (const call of CALLS) {
            const pair = { before: timeOf(before, index + 1, call), after: timeOf(after, index + 1, call) };
            measure(`${call} ${size}`, "ms", round).push(pair);
          }
        }
      }
      // The first drain is only to warm up.
      for (let drain = 0; drain <= plan.drains; drain++) {
        const { before, after } = await turns.ask("drain", null);
        const pair = { before: plan.drainJobs / before, after: plan.drainJobs / after };
        if (drain > 0) measure("drain", "jobs/s", round).push(pair);
      }
    });
  }
  return [...measures.values()];
}

function timeOf(taken: readonly CallTimes[], index: number, call: Call): number {
  return taken[index]?.[call] ?? Number.NaN;
}

/** Before, after, after, before, …: no build is always first. */
class Turns {
  readonly #sides: Sides;
  #beforeFirst: boolean;

  constructor(sides: Sides, beforeFirst: boolean) {
    this.#sides = sides;
    this.#beforeFirst = beforeFirst;
  }

  async ask<K extends Kind>(kind: K, order: Orders[K]): Promise<{ before: Results[K]; after: Results[K] }> {
    const { before, after } = this.#sides;
    const beforeFirst = this.#beforeFirst;
    this.#beforeFirst = !beforeFirst;
    if (beforeFirst) return { before: await before.ask(kind, order), after: await after.ask(kind, order) };
    const result = await after.ask(kind, order);
    return { before: await before.ask(kind, order), after: result };
  }
}

/** The process of a build and its store. */
interface Opened {
  side: Side;
  place: Place;
}

async function open(bed: Bed, { folder, driver }: Build, plan: Plan): Promise<Opened> {
  const place = bed.nowhere();
  const side = startSide(driver);
  const { concurrency } = bed.limits;
  const { product } = await side.ask("open", { url: place.url, backlog: plan.drainJobs, concurrency });
  const own = join(realpathSync(folder), "packages") + sep;
  if (!product.startsWith(own)) throw new Error(`the build in ${folder} loads another build: ${product}`);
  return { side, place };
}

async function inFreshStores(
  bed: Bed,
  builds: Builds,
  plan: Plan,
  round: number,
  work: (turns: Turns) => Promise<void>,
): Promise<void> {
  // The order of opening alternates too, because the position of a file on the disk can matter.
  const beforeFirst = round % 2 === 0;
  const first = await open(bed, beforeFirst ? builds.before : builds.after, plan);
  const second = await open(bed, beforeFirst ? builds.after : builds.before, plan);
  const [before, after] = beforeFirst ? [first, second] : [second, first];
  const turns = new Turns({ before: before.side, after: after.side }, beforeFirst);
  await work(turns);
  await turns.ask("close", null);
  for (const { side, place } of [first, second]) {
    side.end();
    await place.remove();
  }
}
