import { startBackend } from "../backend.js";
import { check, checkEqual } from "./check.js";
import type { Story } from "./tour.js";

interface Schedule {
  name: string;
  type: string;
  cron: string | null;
  timezone: string;
  enabled: boolean;
  nextRunAt: string | null;
}

const DEFAULTS = [
  ["expired_auth_cleanup_daily", "expired_auth_cleanup", "0 5 * * *", "UTC"],
  ["expired_oauth_cleanup_daily", "expired_oauth_cleanup", "0 4 * * *", "UTC"],
  ["session_cleanup_hourly", "stale_session_cleanup", "0 * * * *", "UTC"],
  ["webhook_delivery_prune_daily", "webhook_delivery_prune", "0 3 * * *", "UTC"],
];

export const defaultSchedules: Story = {
  title: "The default schedules are created once",
  async run(tour, print) {
    const other = await startBackend({
      databaseUrl: tour.databaseUrl,
      config: tour.settings({ HOLDFAST_JOBS_ENABLED: "false" }),
    });
    await other.stop();
    const { status, body } = await tour.call<{ schedules: Schedule[] }>("GET", "/schedules", { role: "viewer" });
    checkEqual("The status of GET /schedules", status, 200);
    const found = body.schedules.map(({ name, type, cron, timezone }) => [name, type, cron, timezone]);
    checkEqual("The schedules after two starts", found, DEFAULTS);
    for (const { name, cron, nextRunAt } of body.schedules) print(`${name.padEnd(28)}  ${cron}  next run ${nextRunAt}`);
  },
};

export const scheduleLife: Story = {
  title: "An operator creates, disables, enables and deletes a schedule",
  async run(tour, print) {
    await tour.sql(`INSERT INTO app_webhook_deliveries (url, status, created_at)
      SELECT 'https://example.com', 200, now() - n * interval '1 hour' FROM generate_series(1, 20) AS n`);
    const path = "/schedules/deliveries_of_two_days";
    const created = await tour.call("POST", "/schedules", {
      body: {
        name: "deliveries_of_two_days",
        job: "webhook_delivery_prune",
        every: "1s",
        input: { retention_hours: 48 },
      },
    });
    checkEqual("The status of POST /schedules", created.status, 201);
    const job = await tour.waitFor("the schedule has run", async () => {
      const { body } = await tour.call<{ jobs: { id: string; state: string }[] }>(
        "GET",
        "/jobs?schedule=deliveries_of_two_days&state=completed&order=oldest&limit=1",
      );
      return body.jobs[0] ?? null;
    });
    const { output } = await tour.job(job.id);
    // Those that the default schedule keeps for a week.
    checkEqual("The output of its first job", output, { deleted: { app_webhook_deliveries: 30 } });
    print(`POST /schedules: every second, retention 48 h; its first job returned ${JSON.stringify(output)}`);

    await tour.call("POST", `${path}/disable`);
    const disabled = await tour.call<Schedule>("GET", path);
    check(!disabled.body.enabled && disabled.body.nextRunAt === null, "A disabled schedule still has a next run.");
    print("POST /schedules/deliveries_of_two_days/disable: no next run");
    await tour.call("POST", `${path}/enable`);
    const enabled = await tour.call<Schedule>("GET", path);
    check(enabled.body.nextRunAt !== null, "An enabled schedule has no next run.");
    print("POST /schedules/deliveries_of_two_days/enable: the next run is computed from now");
    await tour.call("DELETE", path);
    checkEqual("A deleted schedule", (await tour.call("GET", path)).status, 404);
    print("DELETE /schedules/deliveries_of_two_days: gone; its jobs remain");
  },
};

const WRONG: [what: string, body: object, message: string][] = [
  ["a wrong cron expression", { cron: "61 * * * *" }, "the minute field"],
  ["an unknown time zone", { cron: "0 * * * *", timezone: "Mars/Base" }, "Mars/Base"],
  ["an input that the job does not take", { cron: "0 * * * *", input: { retention_hours: 0 } }, "retention_hours"],
  ["an unknown field", { cron: "0 * * * *", colour: "red" }, "colour"],
  ["no timing", {}, "cron"],
  ["a name that exists", { name: "session_cleanup_hourly", cron: "0 * * * *" }, "session_cleanup_hourly"],
];

export const wrongSchedules: Story = {
  title: "Wrong schedules are refused with a clear message",
  async run(tour, print) {
    for (const [what, fields, part] of WRONG) {
      const { status, body } = await tour.call<{ error?: { message: string } }>("POST", "/schedules", {
        body: { name: "wrong", job: "webhook_delivery_prune", ...fields },
      });
      const message = body.error?.message ?? "";
      check(status >= 400 && status < 500 && message.includes(part), `${what} was not refused: ${status} ${message}`);
      print(`${what}: ${status} ${message}`);
    }
  },
};
