import { packCommand, type PackCommand } from "holdfast/pack/command";
import type { ReplayResult } from "./replay.js";
import { isStripePack } from "./stripe.js";

/** `holdfast-stripe replay <eventId>` */
export const replay: PackCommand = packCommand({
  name: "replay",
  summary: "Process an event that was not processed.",
  about:
    "Retries the job of the event, or enqueues a new one if its type had no effect when it arrived. An event that never arrived " +
    "is fetched from Stripe if the pack has the option api. A worker does the work.",
  arguments: { event: { description: "The id of the event, such as evt_1MqqbKLt4dXK03v5qaIbiNCC." } },
  flags: {
    force: { kind: "switch", description: "Also if the event was processed. Its effect happens again." },
  },
  examples: [
    {
      line: "replay evt_1MqqbKLt4dXK03v5qaIbiNCC --module jobs.ts",
      description: "Process the event of a dead job again.",
    },
  ],
  async run({ hf, args, flags, find, print }) {
    const pack = find("result of stripe()", isStripePack, "export const payments = stripe({ … })");
    const result = await pack.replay(hf, args.event, { force: flags.force });
    print(result, [lineOf(result)]);
  },
});

function lineOf({ eventId, result, jobId }: ReplayResult): string {
  const job = jobId === null ? "its job" : `job ${jobId}`;
  switch (result) {
    case "retried":
      return `${eventId}: ${job} runs again`;
    case "enqueued":
      return `${eventId}: ${job} is enqueued`;
    case "waiting":
      return `${eventId}: ${job} has not ended yet`;
    case "processed":
      return `${eventId} is processed already; --force processes it again`;
  }
}
