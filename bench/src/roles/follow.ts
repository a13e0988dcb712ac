import { holdfast } from "holdfast";
import { openStore } from "../open-store.js";
import type { Stage } from "./role.js";

/** Longer than a follower takes to register. */
const RECORD_MS = 10_000;

/** Follows all jobs until it is stopped. Returns how many transitions it received. */
export async function follow({ url }: { url: string }, stage: Stage): Promise<number> {
  const store = await openStore(url);
  const hf = await holdfast({ store, logger: false });
  // The drain must not start before its transitions are recorded.
  await store.recordTransitions(RECORD_MS);
  const followed = hf.follow();
  let received = 0;
  const reading = (async () => {
    for await (const _transition of followed) if (++received % 1_000 === 0) stage.progress(received);
  })();
  await stage.ready();
  await stage.stopped;
  await hf.close();
  await reading;
  return received;
}
