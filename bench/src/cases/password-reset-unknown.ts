import type { Bench, Case, Trial } from "../case.js";
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

/** Requests for addresses with and without an account, in random order: the time must not show which is which. */
export function passwordResetUnknown(bench: Bench): Case {
  const { samples: each } = bench.scale;
  const trial: Trial<Taken> = {
    name: "password reset, unknown addresses",
    about: "password resets of known and unknown addresses",
    async run(progress) {
      const place = await bench.bed.place([]);
      const site = await startSite(bench, place.url, { draining: false, sameProcess: true });
      const taken: Taken = { known: [], unknown: [] };
      const ask = async (kind: keyof Taken, index: number): Promise<number> =>
        site.send(resetCall(`user${index}${kind === "known" ? KNOWN : "@other.example"}`));
      for (let index = 0; index < WARM_UP; index++) await ask(index % 2 === 0 ? "known" : "unknown", index);
      for (const [index, kind] of shuffled(each).entries()) {
        taken[kind].push(await ask(kind, WARM_UP + index));
        progress(index / (2 * each));
      }
      await site.stop();
      await place.remove();
      return taken;
    },
  };
  return {
    name: "password-reset-unknown",
    trials: [trial],
    read(samples) {
      const rounds = samples.of(trial);
      const known = rounds.map((round) => round.known);
      const unknown = rounds.map((round) => round.unknown);
      const label = `known and unknown addresses, difference of p50 over ${known.flat().length} requests each`;
      const differences = rounds.map((round) => differenceOf(round.known, round.unknown));
      const all = differenceOf(known.flat(), unknown.flat());
      return [
        plainRow({ name: "difference", label, figure: figure("%", differences, all) }, { atMost: MAX_PERCENT }),
        plainRow({ name: "known", label: "known addresses, p50", figure: percentiles(known, 0.5) }),
        plainRow({ name: "unknown", label: "unknown addresses, p50", figure: percentiles(unknown, 0.5) }),
      ];
    },
  };
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
