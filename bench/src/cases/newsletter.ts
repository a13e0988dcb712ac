import type { Bench, Case, Trial } from "../case.js";
import { figure, plainRow, rates } from "../figures.js";
import { playRole } from "../process.js";
import type { NewsletterResult } from "../roles/newsletter.js";

const MAX_MB = 200;
const MAX_GROWTH_MB = 100;
const MAX_HEAP_GROWTH_MB = 10;

/** One job enqueues a mail to each of many subscribers. Its memory does not depend on how many there are. */
export function newsletter({ bed, scale: { jobs: subscribers } }: Bench): Case {
  const trial: Trial<NewsletterResult> = {
    name: "newsletter",
    about: `newsletter to ${subscribers.toLocaleString("en")} subscribers`,
    rounds: 1,
    async run(progress) {
      const place = await bed.place([]);
      const result = await playRole("newsletter", { url: place.url, subscribers }, progress);
      await place.remove();
      return result;
    },
  };
  return {
    name: "newsletter",
    trials: [trial],
    read(samples) {
      const runs = samples.of(trial);
      const megabytes = (of: (run: NewsletterResult) => number): ReturnType<typeof figure> =>
        figure("MB", runs.map(of));
      const count = subscribers.toLocaleString("en");
      return [
        plainRow(
          { name: "peakRss", label: `peak resident memory, ${count} mails`, figure: megabytes((run) => run.peakRssMb) },
          { below: MAX_MB },
        ),
        plainRow(
          { name: "rssGrowth", label: "how much resident memory grew", figure: megabytes((run) => run.rssGrowthMb) },
          { below: MAX_GROWTH_MB },
        ),
        plainRow(
          { name: "heapGrowth", label: "how much the heap kept", figure: megabytes((run) => run.heapGrowthMb) },
          { below: MAX_HEAP_GROWTH_MB },
        ),
        plainRow({
          name: "rate",
          label: "mails enqueued by one job",
          figure: rates(runs.map(({ seconds }) => ({ seconds, count: subscribers }))),
        }),
      ];
    },
  };
}
