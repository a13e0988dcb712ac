import type { Bench, Case } from "../case.js";
import { rates, ratioRow } from "../figures.js";
import { enqueueTrial, oneCaller, rawSingly } from "./enqueuing.js";

/** Many concurrent callers share commits. */
export function enqueueAtOnce(bench: Bench): Case {
  const { callers, atOnce: count } = bench.scale;
  const { atOnce } = bench.bed.limits;
  const one = oneCaller(bench);
  const raw = rawSingly(bench);
  const many = enqueueTrial(bench, `enqueue by ${callers} callers`, { how: "singly", callers, count });
  return {
    name: "enqueue-at-once",
    trials: [one, raw, many],
    read(samples) {
      const rate = rates(samples.of(many));
      const label = `${callers} callers at once`;
      return [
        ratioRow(
          { name: "rate", label, figure: rate },
          { label: "raw one-row commits", figure: rates(samples.of(raw)) },
        ),
        ratioRow(
          { name: "rateToOne", label: "the same", figure: rate },
          { label: "one caller", figure: rates(samples.of(one)) },
          atOnce === null ? {} : { atLeast: atOnce },
        ),
      ];
    },
  };
}
