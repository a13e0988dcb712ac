import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Subscriber } from "@holdfast/mail";
import { openSite } from "../site.js";
import { watchMemory } from "./peak-memory.js";
import type { Stage } from "./role.js";

export interface NewsletterOrder {
  url: string;
  subscribers: number;
}

export interface NewsletterResult {
  seconds: number;
  /** The highest resident memory, and how much it grew. */
  peakRssMb: number;
  rssGrowthMb: number;
  /** How much more the heap has after a garbage collection. */
  heapGrowthMb: number;
}

const MEGABYTE = 1_048_576;
const WARM_UP = 1_000;
const REPORT_EVERY = 500;

/** Enqueues the mails of a newsletter, after a small one that warms up. */
export async function newsletter(
  { url, subscribers: wanted }: NewsletterOrder,
  stage: Stage,
): Promise<NewsletterResult> {
  let count = WARM_UP;
  async function* subscribers(): AsyncGenerator<Subscriber> {
    for (let n = 0; n < count; n++) {
      if (n % REPORT_EVERY === 0) stage.progress(n / count);
      yield {
        id: `s${n}`,
        email: `reader${n}@known.example`,
        unsubscribeUrl: `https://club.example/unsubscribe?id=${n}`,
      };
    }
  }
  const site = await openSite(url, { subscribers });
  const { hf, news } = site;
  const content = { subject: "Spring", textBody: "Flowers. To unsubscribe: {{unsubscribeUrl}}" };
  async function send(): Promise<void> {
    const { id } = await news.create(content);
    const run = await news.schedule(hf, id, { at: new Date() });
    await hf.runNext();
    const { status, recipients } = (await news.run(run.id)) ?? {};
    if (status !== "sent" || recipients !== count)
      throw new Error(`the run is ${status} with ${recipients} of ${count} mails`);
  }
  await send();
  count = wanted;
  await stage.ready();

  const heapBefore = collected();
  const rssBefore = process.memoryUsage.rss() / MEGABYTE;
  const memory = watchMemory();
  const begun = performance.now();
  await send();
  const seconds = (performance.now() - begun) / 1_000;
  const peakRssMb = memory.stop();
  const heapGrowthMb = (collected() - heapBefore) / MEGABYTE;
  const { pending } = (await hf.stats()).states;
  await site.close();
  if (pending !== WARM_UP + wanted) throw new Error(`${pending} of ${WARM_UP + wanted} mails wait`);
  return {
    seconds,
    peakRssMb,
    rssGrowthMb: Math.max(0, peakRssMb - rssBefore),
    heapGrowthMb: Math.max(0, heapGrowthMb),
  };
}

/** The bytes of the heap after a garbage collection. */
function collected(): number {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  return process.memoryUsage().heapUsed;
}
