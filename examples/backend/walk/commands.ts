import { check, checkEqual } from "./check.js";
import type { Story } from "./tour.js";

export const command: Story = {
  title: "The command lists, cancels and retries jobs",
  async run(tour, print) {
    // A migration that has not reached the jobs yet.
    await tour.sql("ALTER TABLE app_magic_links RENAME TO app_login_links");
    const id = await tour.runNow("expired_auth_cleanup_daily");
    const dead = await tour.finished(id);
    checkEqual("The state of a job whose table is missing", dead.state, "dead");
    print(`the job is dead after attempt ${dead.attempt}: ${dead.error?.message}`);
    await tour.sql("ALTER TABLE app_login_links RENAME TO app_magic_links");

    const list = await tour.commandByApi("jobs", "list", "--state", "dead", "--json");
    const { jobs } = JSON.parse(list.stdout) as { jobs: { id: string }[] };
    checkEqual(
      "holdfast jobs list --state dead",
      jobs.map((job) => job.id),
      [id],
    );
    print("holdfast jobs list --state dead --json: lists it");
    const retried = await tour.commandByApi("jobs", "retry", id);
    checkEqual("The exit code of holdfast jobs retry", retried.exitCode, 0);
    checkEqual("The state of the retried job", (await tour.finished(id)).state, "completed");
    print(`holdfast jobs retry: ${retried.stdout}; it is completed now`);

    const later = await tour.commandByApi("enqueue", "stale_session_cleanup", "--delay", "1h", "--json");
    const waiting = (JSON.parse(later.stdout) as { id: string }).id;
    const cancelled = await tour.commandByApi("jobs", "cancel", waiting);
    checkEqual("The state of the cancelled job", (await tour.job(waiting)).state, "cancelled");
    print(`holdfast jobs cancel: ${cancelled.stdout}`);
  },
};

const REFUSED: string[][] = [
  ["--cron", "0 * * * *", "--input", '{"retention_hours":'],
  ["--cron", "0 * * * *", "--enabled", "maybe"],
];

export const refusedFlags: Story = {
  title: "The command refuses wrong flags before any request",
  async run(tour, print) {
    for (const flags of REFUSED) {
      const { exitCode, stderr } = await tour.commandByApi(
        "schedules",
        "create",
        "wrong",
        "webhook_delivery_prune",
        ...flags,
      );
      checkEqual(`The exit code with ${flags.join(" ")}`, exitCode, 2);
      print(`exit code 2: ${stderr.split("\n")[0]}`);
    }
    const { body } = await tour.call<unknown>("GET", "/audit", { role: "admin" });
    check(!JSON.stringify(body).includes('"wrong"'), "A refused command reached the server.");
  },
};

export const unknownType: Story = {
  title: "A job of an unknown type fails cleanly, and the worker goes on",
  async run(tour, print) {
    const { body } = await tour.call<{ id: string }>("POST", "/jobs", { body: { type: "send_pigeon" } });
    const dead = await tour.finished(body.id);
    checkEqual("The state of the job", dead.state, "dead");
    print(`dead: ${dead.error?.message}`);
    const next = await tour.finished(await tour.runNow("session_cleanup_hourly"));
    checkEqual("The state of the next job", next.state, "completed");
    print("the next job is completed");
  },
};
