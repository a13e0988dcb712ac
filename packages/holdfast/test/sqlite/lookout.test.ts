import { appendFileSync, rmSync, symlinkSync, watch, writeFileSync } from "node:fs";
import { once } from "node:events";
import { expect, it, onTestFinished } from "vitest";
import { Lookout } from "#src/stores/sqlite/thread/wal-watcher.js";
import { until } from "#src/testing/exercise-store/until.js";
import { tempFile } from "./scene.js";

const HOUR = 3_600_000;
/** Whoever looks with these has been told to. */
const NEVER = { restingMs: HOUR, activeMs: HOUR, keenMs: 1, ownMs: 0 };

function scene(paces: ConstructorParameters<typeof Lookout>[2]): {
  file: string;
  wal: string;
  lookout: Lookout;
  looks: () => number;
} {
  const file = tempFile();
  writeFileSync(file, "");
  let looks = 0;
  const lookout = new Lookout(file, () => ++looks > 0, paces);
  onTestFinished(() => lookout.watch(false));
  return { file, wal: `${file}-wal`, lookout, looks: () => looks };
}

it("looks when the system tells that the write-ahead log has been written", async () => {
  const { wal, lookout, looks } = scene(NEVER);
  writeFileSync(wal, "");
  lookout.watch(true);
  appendFileSync(wal, "1");
  await until("a look", () => looks() > 0);
  const before = looks();
  appendFileSync(wal, "2");
  await until("another", () => looks() > before);
});

it("hears of a log that was deleted and made anew", async () => {
  const { wal, lookout } = scene({ ...NEVER, restingMs: 1, activeMs: 1 });
  writeFileSync(wal, "");
  lookout.watch(true);
  rmSync(wal);
  await until("it hears of nothing", () => !lookout.hears);
  writeFileSync(wal, "");
  await until("it hears again", () => lookout.hears);
});

it("does not look for what this process wrote itself", async () => {
  const { wal, lookout, looks } = scene({ ...NEVER, ownMs: HOUR });
  writeFileSync(wal, "");
  lookout.watch(true);
  const heard = watch(wal, { persistent: false });
  onTestFinished(() => heard.close());
  lookout.used(true);
  const change = once(heard, "change");
  appendFileSync(wal, "1");
  await change;
  // A look would have been planned before this, for as soon.
  await new Promise((resolve) => setTimeout(resolve, NEVER.keenMs));
  expect(looks()).toBe(0);
});

it("looks from time to time where there is no log, and nothing to be told of", async () => {
  const { lookout, looks } = scene({ ...NEVER, restingMs: 1, activeMs: 1 });
  lookout.watch(true);
  await until("looks", () => looks() > 3);
  expect(lookout.hears).toBe(false);
});

it("hears of the log of a file behind a symbolic link", () => {
  const file = tempFile();
  for (const each of [file, `${file}-wal`]) writeFileSync(each, "");
  symlinkSync(file, `${file}.link`);
  const lookout = new Lookout(`${file}.link`, () => false, NEVER);
  onTestFinished(() => lookout.watch(false));
  lookout.watch(true);
  expect(lookout.hears).toBe(true);
});
