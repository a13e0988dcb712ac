import type { Bench, Case, Row, Trial } from "../case.js";
import { figure, percentile, percentiles, plainRow } from "../figures.js";
import { KNOWN } from "../site.js";
import { resetCall } from "./password-reset.js";
import { startSite } from "./routes.js";

const MAX_PERCENT = 5;
const WARM_UP = 50;

interface Taken {
  known: number[];
  unknown: number[];
}

/** Requests for one address in an hour, below the limit of 5. */
const REPEATS = 4;

/**
 * Requests for addresses with and without an account, in random order: the time must not show which is which. Once each, and repeatedly while
 * the mail of the first request waits.
 */
export function passwordResetUnknown(bench: Bench): Case {
  const { samples: each } = bench.scale;
  const trial = (name: string, { repeats, worker }: { repeats: number; worker: boolean }): Trial<Taken> => ({
    name: `password reset, unknown addresses${name}`,
    about: `password resets of known and unknown addresses${name}`,
    async run(progress) {
      const place = await bench.bed.place([]);
      const site = await startSite(bench, place.url, { draining: false, sameProcess: true, worker });
      const taken: Taken = { known: [], unknown: [] };
      const asked = { known: 0, unknown: 0 };
      const ask = async (kind: keyof Taken): Promise<number> => {
        const user = `user${Math.floor(asked[kind]++ / repeats)}`;
        return site.send(resetCall(`${user}${kind === "known" ? KNOWN : "@other.example"}`));
      };
      for (let index = 0; index < WARM_UP; index++) await ask(index % 2 === 0 ? "known" : "unknown");
      for (const [index, kind] of shuffled(each).entries()) {
        taken[kind].push(await ask(kind));
        progress(index / (2 * each));
      }
      await site.stop();
      await place.remove();
      return taken;
    },
  });
  const once = trial("", { repeats: 1, worker: true });
  const repeated = trial(", repeated", { repeats: REPEATS, worker: false });
  return {
    name: "password-reset-unknown",
    trials: [once, repeated],
    read: (samples) => [
      ...rowsOf(samples.of(once), { suffix: "", addresses: "addresses" }),
      ...rowsOf(samples.of(repeated), { suffix: "Repeated", addresses: `addresses with ${REPEATS} requests each` }),
    ],
  };
}

function rowsOf(rounds: readonly Taken[], { suffix, addresses }: { suffix: string; addresses: string }): Row[] {
  const known = rounds.map((round) => round.known);
  const unknown = rounds.map((round) => round.unknown);
  const label = `known and unknown ${addresses}, difference of p50 over ${known.flat().length} requests each`;
  const differences = rounds.map((round) => differenceOf(round.known, round.unknown));
  const all = differenceOf(known.flat(), unknown.flat());
  return [
    plainRow({ name: `difference${suffix}`, label, figure: figure("%", differences, all) }, { atMost: MAX_PERCENT }),
    plainRow({ name: `known${suffix}`, label: `known ${addresses}, p50`, figure: percentiles(known, 0.5) }),
    plainRow({ name: `unknown${suffix}`, label: `unknown ${addresses}, p50`, figure: percentiles(unknown, 0.5) }),
  ];
}

/** As many of each kind, in random order. */
function shuffled(each: number): (keyof Taken)[] {
  const left = { known: each, unknown: each };
  return Array.from({ length: 2 * each }, () => {
    const kind = Math.random() * (left.known + left.unknown) < left.known ? "known" : "unknown";
    left[kind]--;
    return kind;
  });
}

function differenceOf(known: readonly number[], unknown: readonly number[]): number {
  return Math.abs(percentile(known, 0.5) / percentile(unknown, 0.5) - 1) * 100;
}
