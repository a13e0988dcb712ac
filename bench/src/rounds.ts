import { Samples, type Case, type Trial } from "./case.js";
import type { Progress } from "./progress.js";

/**
 * Runs every trial once per round, one after another. A temporary slowdown of the machine affects Holdfast and its
 * baselines alike, because a ratio compares trials that ran close together.
 */
export async function runRounds(cases: readonly Case[], rounds: number, progress: Progress): Promise<Samples> {
  const trials = new Map<string, Trial>();
  for (const { trials: wanted } of cases)
    for (const trial of wanted) trials.set(trial.name, trials.get(trial.name) ?? trial);
  const plan: { round: number; trial: Trial }[] = [];
  for (let round = 1; round <= rounds; round++) {
    for (const trial of trials.values()) if (round <= (trial.rounds ?? rounds)) plan.push({ round, trial });
  }
  const samples = new Samples();
  for (const [index, { round, trial }] of plan.entries()) {
    progress.step(`${index + 1}/${plan.length}  round ${round}: ${trial.about}`);
    samples.add(trial, await trial.run((fraction) => progress.within(fraction)));
  }
  progress.end();
  return samples;
}
