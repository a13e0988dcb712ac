import { check, checkEqual } from "./check.js";
import type { Story } from "./tour.js";

interface Schedule {
  cron: string | null;
  enabled: boolean;
  changed: string[];
}

export const operatorChanges: Story = {
  title: "What an operator changed survives a restart",
  async run(tour, print) {
    const changed = await tour.call("PUT", "/schedules/session_cleanup_hourly", { body: { cron: "*/30 * * * *" } });
    checkEqual("The status of PUT /schedules", changed.status, 200);
    print("PUT /schedules/session_cleanup_hourly: */30 * * * *");
    const disabled = await tour.commandByApi("schedules", "disable", "expired_auth_cleanup_daily");
    print(`holdfast schedules disable: ${disabled.stdout}`);

    await tour.restart();
    // Another process that creates the schedules which do not exist yet.
    const other = await tour.command(["process"]);
    checkEqual("The exit code of holdfast process", other.exitCode, 0);

    const sessions = await tour.call<Schedule>("GET", "/schedules/session_cleanup_hourly");
    const auth = await tour.call<Schedule>("GET", "/schedules/expired_auth_cleanup_daily");
    checkEqual("The cron expression after a restart", sessions.body.cron, "*/30 * * * *");
    check(!auth.body.enabled, "The restart enabled a schedule that an operator had disabled.");
    print("after a restart, and after holdfast process: both changes are there");

    await tour.call("POST", "/schedules/session_cleanup_hourly/reset");
    await tour.call("POST", "/schedules/expired_auth_cleanup_daily/enable");
    const reset = await tour.call<Schedule>("GET", "/schedules/session_cleanup_hourly");
    checkEqual("The cron expression after the reset", reset.body.cron, "0 * * * *");
    print("POST /schedules/session_cleanup_hourly/reset: 0 * * * * again, on request only");
  },
};
