import { join } from "node:path";
import { expect, it } from "vitest";
import { holdfast } from "holdfast";
import { loadConfig } from "holdfast/config";
import { folder } from "./scene.js";

it("loadConfig reads the file and variables as options", async () => {
  const toml =
    '[jobs]\nconcurrency = 4\nlease_duration_s = 300\nscheduler_tick_s = 15\n\n[retry]\nbase = "5s"\nmax = "5m"\n';
  const cwd = folder({ "holdfast.toml": toml });
  const config = loadConfig({ cwd, env: { HOLDFAST_JOBS_POLL_INTERVAL_MS: "250", HOLDFAST_STORE: "sqlite::memory:" } });
  expect(config).toMatchObject({
    holdfast: {
      store: "sqlite::memory:",
      scheduler: { tick: 15_000 },
      retry: { backoff: { base: "5s", max: "5m" } },
    },
    work: { concurrency: 4, poll: 250, lease: 300_000 },
    file: join(cwd, "holdfast.toml"),
  });
  const hf = await holdfast({ ...config.holdfast, jobs: [], logger: false });
  hf.work(config.work ?? {});
  await hf.close();
});

it("loadConfig starts no worker while jobs.enabled is false", () => {
  const cwd = folder({ "holdfast.toml": "[jobs]\nenabled = false\n" });
  expect(loadConfig({ cwd, env: {} })).toMatchObject({ work: null, holdfast: { scheduler: false } });
  expect(loadConfig({ cwd, env: { HOLDFAST_JOBS_ENABLED: "true" } }).work).not.toBeNull();
});

it("loadConfig refuses wrong settings and options", () => {
  const cwd = folder({ "holdfast.toml": "[jobs]\npoll_interval_ms = 50\n" });
  expect(() => loadConfig({ cwd, env: {} })).toThrow("jobs.poll_interval_ms");
  expect(() => loadConfig({ path: cwd } as object)).toThrow("path is not an option of loadConfig");
});
