import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { logJobs } from "#src/cli/ui/job-lines.js";
import { deferred, recordingLogger, scene } from "../engine/scene.js";

describe("the log lines of a job", () => {
  it("begin with one line for its start", async () => {
    const gate = deferred();
    const type = job({
      type: "t",
      retry: { maxAttempts: 2, backoff: { base: "1s", jitter: 0 } },
      async run({ log, job: { attempt } }) {
        log(`first of ${attempt}`);
        await gate.promise;
        log(`second of ${attempt}`);
        if (attempt === 1) throw new Error("once");
      },
    });
    const { hf, clock } = await scene({ jobs: [type] });
    const { logger, lines } = recordingLogger();
    logJobs(hf, logger);
    await hf.enqueue(type);
    hf.work();
    await clock.advance("1s");
    gate.resolve();
    await clock.advance("5s");
    expect(lines.map(({ message, fields }) => [message, fields["line"] ?? fields["attempt"]])).toEqual([
      ["job started", 1],
      ["job log", "first of 1"],
      ["job log", "second of 1"],
      ["job started", 2],
      ["job log", "first of 2"],
      ["job log", "second of 2"],
      ["job completed", 2],
    ]);
  });
});
