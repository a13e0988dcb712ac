import type { Filling } from "../bed.js";
import type { Bench, Case, Figure, Trial } from "../case.js";
import { figure, plainRow, ratioRow } from "../figures.js";
import { playRole } from "../process.js";
import type { Units } from "../roles/meter.js";

const LIMIT = 100;

/** Future and finished jobs must not make claims more expensive. */
export function requests({ bed, scale: { jobs, background } }: Bench): Case | null {
  const { units } = bed.limits;
  if (units === null) return null;
  const claims = (name: string, about: string, burden: readonly Filling[]): Trial<Units> => ({
    name,
    about,
    // A count and not a time, so one round is enough.
    rounds: 1,
    async run(progress) {
      const place = await bed.place([...burden, { kind: "due", count: jobs }]);
      const order = { url: place.url, expect: jobs, limit: LIMIT };
      const taken = await playRole("meteredClaims", order, (ran) => progress(ran / jobs));
      await place.remove();
      return taken;
    },
  });
  const [future, finished] = [background.future.toLocaleString("en"), background.finished.toLocaleString("en")];
  // One job of each kind, so that there are the same lanes: each lane costs a query.
  const plain = claims("metered claims", `claims of ${LIMIT}, their requests counted`, [
    { kind: "future", count: 1 },
    { kind: "finished", count: 1 },
  ]);
  const label = `with ${future} future jobs and ${finished} finished ones`;
  const burdened = claims("metered claims with others", `the same ${label}`, [
    { kind: "future", count: background.future },
    { kind: "finished", count: background.finished },
  ]);
  const perJob = (samples: readonly Units[], unit: "requests" | "units", of: (taken: Units) => number): Figure =>
    figure(
      unit,
      samples.map((taken) => of(taken) / jobs),
    );
  return {
    name: "requests",
    trials: [plain, burdened],
    read(samples) {
      const all = samples.of(burdened);
      const none = samples.of(plain);
      return [
        ratioRow(
          { name: "requests", label: `per claimed job, ${label}`, figure: perJob(all, "requests", (t) => t.requests) },
          { label: "with one of each", figure: perJob(none, "requests", (t) => t.requests) },
          { atMost: units.requests },
        ),
        ratioRow(
          { name: "reads", label: "read units per claimed job", figure: perJob(all, "units", (t) => t.reads) },
          { label: "with one of each", figure: perJob(none, "units", (t) => t.reads) },
        ),
        plainRow({
          name: "lost",
          label: "failed conditions per job",
          figure: perJob(all, "units", (t) => t.lost),
        }),
      ];
    },
  };
}
