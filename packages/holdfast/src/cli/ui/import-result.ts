import { STATE_NAMES } from "../../job/state.js";
import type { StoredJob } from "../../store.js";
import type { LegacyImport } from "../../stores/postgres/index.js";
import type { TextWriter } from "./output.js";
import { clockOf, countOf, stateOf } from "./format.js";
import { paint, type Part } from "./style.js";

/** The `--json` result of an import. Times and payloads of its samples look like those of any job. */
export function importResult(done: LegacyImport): Record<string, unknown> {
  return { ...done, samples: done.samples.map(sampleOf) };
}

function sampleOf({ input, output, trace: _trace, ...job }: StoredJob): Record<string, unknown> {
  const fields = Object.entries(job).map(([name, value]) => [
    name,
    name.endsWith("At") && typeof value === "number" ? new Date(value).toISOString() : value,
  ]);
  return {
    ...(Object.fromEntries(fields) as Record<string, unknown>),
    input: JSON.parse(input) as unknown,
    output: output === null ? null : (JSON.parse(output) as unknown),
  };
}

/** Prints what an import did or would do. */
export function showImport(
  writer: TextWriter,
  { imported, skipped, byState, dropped, samples, dryRun }: LegacyImport,
): void {
  const rows = imported === 1 ? "1 row" : `${countOf(imported)} rows`;
  const known = skipped === 0 ? "" : `; ${countOf(skipped)} skipped: already imported`;
  writer.line(`${rows} ${dryRun ? "would be imported" : "imported"} as jobs${known}`);
  const states = STATE_NAMES.filter((state) => byState[state] > 0);
  if (states.length > 0) writer.fields(states.map((state) => [state, stateOf(state, countOf(byState[state]))]));
  for (const table of dropped) writer.line(`${table} ${dryRun ? "would be" : "was"} dropped`);
  if (samples.length === 0) return;
  writer.line("");
  writer.line(paint(samples.length < imported ? "Samples" : "Jobs", "bold"));
  writer.table(
    [{ title: "Id", whole: true }, { title: "State" }, { title: "Queue" }, { title: "Created" }, { title: "Input" }],
    samples.map((job): Part[] => [
      job.id,
      stateOf(job.state),
      job.queue,
      clockOf(new Date(job.createdAt).toISOString()),
      job.input,
    ]),
  );
}
