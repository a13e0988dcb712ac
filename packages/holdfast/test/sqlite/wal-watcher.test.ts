import { appendFileSync, rmSync, symlinkSync, watch, writeFileSync } from "node:fs";
import { once } from "node:events";
import { expect, it, onTestFinished } from "vitest";
import { WalWatcher } from "#src/stores/sqlite/thread/wal-watcher.js";
import { until } from "#src/testing/exercise-store/until.js";
import { tempFile } from "./scene.js";

const HOUR = 3_600_000;
/** With these intervals only a file event leads to a check. */
const EVENTS_ONLY = { idleMs: HOUR, activeMs: HOUR, afterEventMs: 1, ownWriteMs: 0 };

function scene(intervals: ConstructorParameters<typeof WalWatcher>[2]): {
  wal: string;
  watcher: WalWatcher;
  checks: () => number;
} {
  const file = tempFile();
  writeFileSync(file, "");
  let checks = 0;
  const watcher = new WalWatcher(file, () => ++checks > 0, intervals);
  onTestFinished(() => watcher.watch(false));
  return { wal: `${file}-wal`, watcher, checks: () => checks };
}

it("checks when a file event shows a write to the log", async () => {
  const { wal, watcher, checks } = scene(EVENTS_ONLY);
  writeFileSync(wal, "");
  watcher.watch(true);
  appendFileSync(wal, "1");
  await until("a check", () => checks() > 0);
  const before = checks();
  appendFileSync(wal, "2");
  await until("another check", () => checks() > before);
});

it("receives no further events until it has checked", async () => {
  const { wal, watcher, checks } = scene({ ...EVENTS_ONLY, afterEventMs: 20 });
  writeFileSync(wal, "");
  watcher.watch(true);
  appendFileSync(wal, "1");
  await until("it to receive no events", () => !watcher.receivesEvents);
  expect(checks()).toBe(0);
  await until("it to receive events again", () => watcher.receivesEvents);
  expect(checks()).toBe(1);
});

it("receives events of a log that was deleted and created again", async () => {
  const { wal, watcher } = scene({ ...EVENTS_ONLY, idleMs: 1, activeMs: 1 });
  writeFileSync(wal, "");
  watcher.watch(true);
  rmSync(wal);
  await until("it to receive no events", () => !watcher.receivesEvents);
  writeFileSync(wal, "");
  await until("it to receive events again", () => watcher.receivesEvents);
});

it("ignores events of this process's own writes", async () => {
  const { wal, watcher, checks } = scene({ ...EVENTS_ONLY, ownWriteMs: HOUR });
  writeFileSync(wal, "");
  watcher.watch(true);
  const events = watch(wal, { persistent: false });
  onTestFinished(() => events.close());
  watcher.recordOwnUse(true);
  const change = once(events, "change");
  appendFileSync(wal, "1");
  await change;
  // A check would have been scheduled before this timer, with the same delay.
  await new Promise((resolve) => setTimeout(resolve, EVENTS_ONLY.afterEventMs));
  expect(checks()).toBe(0);
});

it("polls if there is no log and so no file events", async () => {
  const { watcher, checks } = scene({ ...EVENTS_ONLY, idleMs: 1, activeMs: 1 });
  watcher.watch(true);
  await until("checks", () => checks() > 3);
  expect(watcher.receivesEvents).toBe(false);
});

it("watches the log of a file behind a symbolic link", () => {
  const file = tempFile();
  for (const each of [file, `${file}-wal`]) writeFileSync(each, "");
  symlinkSync(file, `${file}.link`);
  const watcher = new WalWatcher(`${file}.link`, () => false, EVENTS_ONLY);
  onTestFinished(() => watcher.watch(false));
  watcher.watch(true);
  expect(watcher.receivesEvents).toBe(true);
});
