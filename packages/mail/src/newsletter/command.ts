import { packCommand, packGroup, type PackCommand } from "holdfast/pack/command";
import { isNewsletter } from "./newsletter.js";

/** `holdfast-mail newsletter …` */
export const newsletterCommands: PackCommand = packGroup({
  name: "newsletter",
  summary: "Dispatch newsletters.",
  commands: [
    packCommand({
      name: "dispatch-due",
      summary: "Enqueue the job of every due send run that has none.",
      about:
        "A send run has a job that starts it at its time. If that job was deleted, cancelled or is dead, this command enqueues a new one. Runs whose job waits or runs are left alone, so it is safe to run at any time.",
      flags: { "dry-run": { kind: "switch", description: "Print the runs and enqueue nothing." } },
      examples: [
        { line: "newsletter dispatch-due --dry-run", description: "print the due runs that have no job" },
        { line: "newsletter dispatch-due --module src/jobs.ts", description: "enqueue their jobs" },
      ],
      async run({ hf, flags, find, print }) {
        const news = find("newsletter", isNewsletter, "export const news = newsletter({ … })");
        await news.install(hf);
        const dryRun = flags["dry-run"];
        const runs = await news.dispatchDue(hf, { dryRun });
        const what = dryRun ? "would enqueue" : "enqueued";
        print({ dryRun, runs }, [
          ...runs.map(
            ({ id, scheduledFor, jobId }) =>
              `${what} send run ${id}, due since ${scheduledFor.toISOString()}${jobId === null ? "" : `: job ${jobId}`}`,
          ),
          ...(runs.length === 0 ? ["no due send run is without a job"] : []),
        ]);
      },
    }),
  ],
});
