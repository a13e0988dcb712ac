import { checkEqual } from "./check.js";
import type { Story, Tour } from "./tour.js";

/** The same switch for the backend and for the command. */
const DISABLED = { HOLDFAST_JOBS_ENABLED: "false" };

export const legacyPruner: Story = {
  title: "The legacy pruner runs only while the queue is disabled",
  async run(tour, print) {
    const kept = await tour.count("app_webhook_deliveries");
    await insertOldDeliveries(tour);
    await tour.restart(DISABLED);
    await tour.waitFor("the pruner has deleted the old deliveries", async () =>
      (await tour.count("app_webhook_deliveries")) === kept ? true : null,
    );
    print(`queue disabled: the pruner deleted 700 deliveries, and kept ${kept}`);
    const waiting = await tour.runNow("session_cleanup_hourly");
    const worker = await tour.command(["worker"], DISABLED);
    checkEqual("The exit code of holdfast worker", worker.exitCode, 0);
    print(`holdfast worker: ${worker.stdout}`);
    checkEqual("The state of a job without a worker", (await tour.job(waiting)).state, "pending");
    const stats = await tour.call<{ states: { pending: number }; oldestDueMs: number }>("GET", "/jobs/stats");
    print(`GET /jobs/stats: ${stats.body.states.pending} job waits, for ${stats.body.oldestDueMs} ms; no worker runs`);

    await insertOldDeliveries(tour);
    await tour.restart();
    checkEqual("The state of the job that waited", (await tour.finished(waiting)).state, "completed");
    checkEqual("The deliveries while the queue is enabled", await tour.count("app_webhook_deliveries"), kept + 700);
    print("queue enabled: the job has run; the pruner deleted nothing");
    const { output } = await tour.finished(await tour.runNow("webhook_delivery_prune_daily"));
    checkEqual("The output of the scheduled job", output, { deleted: { app_webhook_deliveries: 700 } });
    print("the scheduled job deleted 700 deliveries instead");
  },
};

function insertOldDeliveries(tour: Tour): Promise<void> {
  return tour.sql(`INSERT INTO app_webhook_deliveries (url, status, created_at)
    SELECT 'https://example.com', 200, now() - interval '8 days' FROM generate_series(1, 700)`);
}
