import type { NewsletterRecords } from "@holdfast/mail";
import { database } from "holdfast/pack";
import { beforeEach, expect, it } from "vitest";
import { describeDatabases, type PackDatabase } from "../../../holdfast/test/pack/scene.js";
import { sqlRecords } from "../../dist/newsletter/sql-records.js";
import { countingTransport, everyone, newsScene } from "./news-scene.js";

/** More than a batch. */
const READERS = 501;
/** What a mail does after the server has accepted it. If that fails, the mail is sent again: see the guide. */
const AFTER_SENDING = "setDelivery";

/** Records of which one call fails, as if the process had ended before or after it. */
function failingRecords(records: NewsletterRecords): {
  records: NewsletterRecords;
  failAt: (call: number, when: "before" | "after") => void;
  hasFailed: () => boolean;
} {
  let left = Number.POSITIVE_INFINITY;
  let when: "before" | "after" = "before";
  let failed = false;
  const fail = (): never => {
    failed = true;
    throw new Error("the process has ended");
  };
  const wrap =
    (name: string, method: (...args: unknown[]) => unknown) =>
    async (...args: unknown[]): Promise<unknown> => {
      const isNow = name !== AFTER_SENDING && left-- === 0;
      if (isNow && when === "before") fail();
      const result = await method(...args);
      return isNow ? fail() : result;
    };
  const methods = Object.entries(records).map(([name, method]) => [name, wrap(name, method as never)]);
  return {
    records: Object.fromEntries(methods) as NewsletterRecords,
    failAt(call, at) {
      [left, when, failed] = [call, at, false];
    },
    hasFailed: () => failed,
  };
}

describeDatabases((open) => {
  let given: PackDatabase;
  beforeEach(async () => (given = await open()));

  it.each(["before", "after"] as const)("E-06 ended %s any step, it reaches each subscriber once", async (when) => {
    const transport = countingTransport();
    const { records, failAt, hasFailed } = failingRecords(sqlRecords(database(given.db)));
    const { hf, news, schedule, clock } = await newsScene(given, {
      readers: READERS,
      transport,
      records,
    });
    let steps = 0;
    for (let isDone = false; !isDone; steps++) {
      const run = await schedule(new Date(clock.now()));
      failAt(steps, when);
      await hf.runNext();
      // The steps of mails do not end: once the run itself is done, there are no more.
      isDone = !hasFailed();
      failAt(Number.POSITIVE_INFINITY, when);
      await clock.advance("10m");
      await hf.drain({ concurrency: 20 });
      expect(transport.sent.splice(0).toSorted()).toEqual(everyone(READERS).toSorted());
      // One job for the run, and one for each mail.
      expect((await hf.stats()).states).toMatchObject({ completed: (steps + 1) * (READERS + 1), pending: 0, dead: 0 });
      expect(await news.run(run.id)).toMatchObject({ status: "sent", deliveries: { queued: 0, sent: READERS } });
    }
    expect(steps).toBeGreaterThan(4);
  });
});
