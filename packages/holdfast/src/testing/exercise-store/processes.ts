import assert from "node:assert/strict";
import { fork, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { isFinished } from "../../job/state.js";
import type { LeaseRef } from "../../store.js";
import { addAll, MINUTE, newJobs, recordOf } from "./builders.js";
import { allRecords, assertNothingVanished, History } from "./history.js";
import type { Order, Report, Settings } from "./process.js";
import { addSchedules } from "./schedule-builders.js";
import { assertEachSlotOnce, MAX_SLOTS } from "./schedulers.js";
import type { DefineCase, LiveScene } from "./scene.js";
import { randomFrom, until } from "./until.js";

/** The size of an insert and the limit of a claim, as fractions of all jobs. */
const CHUNK = 0.05;
const BATCH = 0.008;
/** Long enough that a busy machine rarely loses a lease, short enough to wait for. */
const LEASE_MS = 800;
/** The maximum number of schedules fired in one call. */
const FIRED = 80;
/** Slots of each schedule. */
const SLOTS = 10;
const KILLS = 4;
/** About as long as a firing takes on a busy machine. */
const KILLED_WITHIN_MS = 30;

export function processCases(test: DefineCase): void {
  test.live(["another handle", "signals"], "A-29 A-35 B-19 four processes lose and duplicate no job", fourProcesses);

  test.live(["another handle", "signals"], "an acknowledged insert survives a killed process", async (scene) => {
    const writer = start(scene, { role: "enqueues", batch: 20 });
    try {
      await writer.reported("ready");
      writer.order("go");
      await writer.reportedSo("a few enqueues", (reports) => reports.length > 15);
      writer.kill();
      await until("its end", () => writer.ended());
      const records = await allRecords(scene.store);
      const acknowledged = writer.reports.flatMap((report) => (report.kind === "enqueued" ? report.ids : []));
      for (const id of acknowledged) assert.equal(records.get(id)?.state, "pending");
      // A server may still be executing the last request.
      await until("stats and records to agree", async () => {
        const { size } = await allRecords(scene.store);
        return assertNothingVanished(scene.store, size, 0).then(
          () => true,
          () => false,
        );
      });
    } finally {
      writer.kill();
    }
  });

  test.live(["another handle", "signals"], "C-12 three processes fire each slot once, despite kills", threeSchedulers);
}

async function threeSchedulers(scene: LiveScene): Promise<void> {
  const { store, many } = scene;
  const added = Math.min(FIRED, many / 10);
  const seed = Date.now() % 1_000_000;
  const random = randomFrom(seed);
  const schedulers: Worker[] = [];
  const names: string[] = [];
  const startOne = async (): Promise<Worker> => {
    const n = schedulers.length;
    const scheduler = start(scene, { role: "schedules", worker: `scheduler ${n}`, seed: seed + n });
    schedulers.push(scheduler);
    await scheduler.reported("ready");
    scheduler.order("go");
    return scheduler;
  };
  const addMore = async (): Promise<void> => {
    const more = Array.from({ length: added }, (_, n) => `s${names.length + n}`);
    const startAt = Date.now() - SLOTS * MINUTE;
    await addSchedules(store, more, { nextRunAt: startAt, startAt, endAt: startAt + SLOTS * MINUTE });
    names.push(...more);
  };
  /** There is always more to do, so that each process is killed while it works. */
  const untilWithMore = (what: string, condition: () => boolean): Promise<unknown> =>
    until(what, async () => {
      if ((await store.dueSchedules(added)).schedules.length < added) await addMore();
      return condition();
    });
  const madeBy = ({ reports }: Worker): string[] =>
    reports.flatMap((report) => (report.kind === "fired" ? report.ids : []));
  try {
    const steady = await Promise.all([startOne(), startOne()]);
    for (let kills = 0; kills < KILLS; kills++) {
      const victim = await startOne();
      await untilWithMore("it to fire something", () => madeBy(victim).length > 0);
      victim.killSoonAfter("firing", random(KILLED_WITHIN_MS));
      await untilWithMore("its end", () => victim.ended() !== false);
      assert.equal(victim.ended(), "SIGKILL");
    }
    await until("every slot to be fired", async () => {
      const { schedules, nextRunAt } = await store.dueSchedules(1);
      return schedules.length === 0 && nextRunAt === null;
    });
    for (const scheduler of steady) scheduler.order("stop");
    await until("every process to end", () => schedulers.every((scheduler) => scheduler.ended()));
    for (const scheduler of steady) assert.equal(scheduler.ended(), "0");
    const acknowledged = schedulers.flatMap(madeBy);
    await assertEachSlotOnce(store, names, acknowledged);
    // Only the last step of each killed process may have gone unreported.
    const unreported = names.length * SLOTS - acknowledged.length;
    assert.ok(unreported <= KILLS * FIRED * MAX_SLOTS, `${unreported} jobs were created but not reported`);
  } finally {
    for (const scheduler of schedulers) scheduler.kill();
  }
}

async function fourProcesses(scene: LiveScene): Promise<void> {
  const { store, many } = scene;
  const seed = Date.now() % 1_000_000;
  const roles = ["sleeps", "hoards", "works", "works"] as const;
  const batch = Math.round(many * BATCH);
  const workers = roles.map((role, index) =>
    start(scene, { role, worker: `${role} ${index}`, seed: seed + index, batch }),
  );
  const [sleeper, hoarder, ...others] = workers;
  assert.ok(sleeper !== undefined && hoarder !== undefined);
  const jobs = newJobs(many, { maxAttempts: 100 });
  const chunk = many * CHUNK;
  const enqueue = async (from: number, to: number): Promise<void> => {
    for (let next = from; next < to; next += chunk) await addAll(store, jobs.slice(next, next + chunk));
  };
  try {
    await Promise.all(workers.map((worker) => worker.reported("ready")));
    // The stopped and the killed process start first, one after the other, or the others might claim everything.
    await enqueue(0, 2 * chunk);
    sleeper.order("go");
    const held = await holding(sleeper);
    hoarder.order("go");
    const hoarded = await holding(hoarder);
    sleeper.child.kill("SIGSTOP");
    for (const worker of others) worker.order("go");
    await enqueue(2 * chunk, many / 2);
    hoarder.kill();
    await enqueue(many / 2, many);

    await until("others to take over what the stopped process held", () => allTaken(scene, held));
    sleeper.child.kill("SIGCONT");
    sleeper.order("continue");
    const back = await sleeper.reported("came back");
    const lost = held.map(() => "lost" as const);
    assert.deepEqual([back.start, back.extend, back.settle], [lost, lost, lost]);

    await until("every job to be finished", async () => (await unfinished(scene)) === 0);
    for (const worker of workers) if (worker !== hoarder) worker.order("stop");
    await until("every process to end", () => workers.every((worker) => worker.ended()));
    assert.deepEqual(
      workers.map((worker) => worker.ended()),
      ["0", "SIGKILL", "0", "0"],
    );
    await judge(
      scene,
      jobs.map((job) => job.id),
      workers,
      { held, hoarded, hoarder: hoarder.worker },
    );
  } finally {
    for (const worker of workers) worker.kill();
  }
}

async function judge(
  { store }: LiveScene,
  ids: readonly string[],
  workers: readonly Worker[],
  { held, hoarded, hoarder }: { held: LeaseRef[]; hoarded: LeaseRef[]; hoarder: string },
): Promise<void> {
  const history = new History();
  for (const { worker, reports } of workers) {
    for (const report of reports) {
      if (report.kind === "claimed") history.claimed(worker, report, LEASE_MS);
      if (report.kind !== "settled") continue;
      for (const outcome of report.outcomes) history.settled(worker, { ...outcome, to: "completed" }, outcome.result);
    }
  }
  history.assertOneLeaseAtATime();
  history.assertOneEnding();
  await assertNothingVanished(store, ids.length, 0);
  const records = await allRecords(store);
  for (const id of ids) {
    const record = records.get(id);
    assert.equal(record?.state, "completed", `job ${id}`);
    // The killed process may not have reported its last step.
    history.assertSeen(record, {
      complete: !history.workersOf(id).includes(hoarder) && record.output !== `"${hoarder}"`,
    });
  }
  for (const { id, fence } of [...held, ...hoarded]) {
    const record = await recordOf(store, id);
    assert.ok(record.fence > fence, `job ${id} was claimed again`);
    assert.notEqual(record.output, `"too late"`);
  }
}

async function allTaken({ store }: LiveScene, leases: readonly LeaseRef[]): Promise<boolean> {
  const records = await Promise.all(leases.map((lease) => recordOf(store, lease.id)));
  return records.every((record, index) => record.fence > (leases[index]?.fence ?? 0));
}

async function unfinished({ store }: LiveScene): Promise<number> {
  const { counts } = await store.stats();
  return counts.reduce((sum, { state, count }) => sum + (isFinished(state) ? 0 : count), 0);
}

async function holding(worker: Worker): Promise<LeaseRef[]> {
  return (await worker.reported("holding")).leases;
}

interface Worker {
  worker: string;
  child: ChildProcess;
  reports: readonly Report[];
  reported<K extends Report["kind"]>(kind: K): Promise<Extract<Report, { kind: K }>>;
  reportedSo<T>(what: string, judge: (reports: readonly Report[]) => T | undefined | false): Promise<T>;
  order(order: Order): void;
  kill(): void;
  /** Kills the process this long after it reports this; polling the reports would be too slow. */
  killSoonAfter(kind: Report["kind"], ms: number): void;
  /** How it ended, once it has. */
  ended(): string | false;
}

function start(scene: LiveScene, given: Pick<Settings, "role"> & Partial<Settings>): Worker {
  const { opener, address } = scene;
  const settings: Settings = {
    opener,
    address,
    worker: given.role,
    leaseMs: LEASE_MS,
    batch: FIRED,
    seed: 1,
    ...given,
  };
  const script = fileURLToPath(new URL("./process.js", import.meta.url));
  // The test runner's own options must not apply to child processes.
  const child = fork(script, [JSON.stringify(settings)], { execArgv: [], stdio: ["ignore", "ignore", "pipe", "ipc"] });
  const reports: Report[] = [];
  let complaint = "";
  child.on("message", (report) => reports.push(report as Report));
  child.stderr?.on("data", (text) => (complaint += String(text)));
  const ended = (): string | false => {
    if (child.exitCode === null && child.signalCode === null) return false;
    return child.signalCode ?? String(child.exitCode);
  };
  const reportedSo: Worker["reportedSo"] = (what, judge) =>
    until(`${settings.worker} to report ${what}`, () => {
      const found = judge(reports);
      const waiting = found === undefined || found === false;
      assert.ok(!waiting || ended() === false, `${settings.worker} ended before it reported ${what}: ${complaint}`);
      return found;
    });
  return {
    worker: settings.worker,
    child,
    reports,
    reportedSo,
    reported: <K extends Report["kind"]>(kind: K) =>
      reportedSo(`"${kind}"`, (all) =>
        all.find((report): report is Extract<Report, { kind: K }> => report.kind === kind),
      ),
    order: (order) => void child.send(order),
    kill: () => void child.kill("SIGKILL"),
    killSoonAfter: (kind, ms) => {
      child.on("message", (report) => {
        if ((report as Report).kind === kind) setTimeout(() => child.kill("SIGKILL"), ms);
      });
    },
    ended,
  };
}
