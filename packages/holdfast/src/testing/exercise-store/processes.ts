import assert from "node:assert/strict";
import { fork, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { LeaseRef } from "../../store.js";
import { addAll, newJobs, recordOf } from "./builders.js";
import { allRecords, assertNothingVanished, History } from "./history.js";
import type { Order, Report, Settings } from "./process.js";
import type { DefineCase, LiveScene } from "./scene.js";
import { until } from "./until.js";

const JOBS = 10_000;
const CHUNK = 500;
const BATCH = 80;
/** Long enough that a busy machine rarely loses a lease, short enough not to be waited for. */
const LEASE_MS = 800;

export function processCases(test: DefineCase): void {
  test.live(
    ["another handle", "signals"],
    "A-29 A-35 B-19 four processes over 10,000 jobs, one stopped and one killed, lose and double nothing",
    fourProcesses,
  );

  test.live(
    ["another handle", "signals"],
    "what a process was told is stored outlives its being killed",
    async (scene) => {
      const writer = start(scene, { role: "enqueues", batch: 20 });
      try {
        await writer.reported("ready");
        writer.tell("go");
        await writer.reportedSo("a few enqueues", (reports) => reports.length > 15);
        writer.kill();
        await until("its end", () => writer.ended());
        const records = await allRecords(scene.store);
        const acknowledged = writer.reports.flatMap((report) => (report.kind === "enqueued" ? report.ids : []));
        for (const id of acknowledged) assert.equal(records.get(id)?.state, "pending");
        await assertNothingVanished(scene.store, records.size, 0);
      } finally {
        writer.kill();
      }
    },
  );
}

async function fourProcesses(scene: LiveScene): Promise<void> {
  const { store } = scene;
  const seed = Date.now() % 1_000_000;
  const roles = ["sleeps", "hoards", "works", "works"] as const;
  const workers = roles.map((role, index) => start(scene, { role, worker: `${role} ${index}`, seed: seed + index }));
  const [sleeper, hoarder, ...others] = workers;
  assert.ok(sleeper !== undefined && hoarder !== undefined);
  const jobs = newJobs(JOBS, { maxAttempts: 100 });
  const enqueue = async (from: number, to: number): Promise<void> => {
    for (let next = from; next < to; next += CHUNK) await addAll(store, jobs.slice(next, next + CHUNK));
  };
  try {
    await Promise.all(workers.map((worker) => worker.reported("ready")));
    // The two that come to grief go first, or the others might leave them nothing to hold.
    await enqueue(0, 2 * CHUNK);
    sleeper.tell("go");
    hoarder.tell("go");
    const [held, hoarded] = await Promise.all([holding(sleeper), holding(hoarder)]);
    sleeper.child.kill("SIGSTOP");
    for (const worker of others) worker.tell("go");
    await enqueue(2 * CHUNK, JOBS / 2);
    hoarder.kill();
    await enqueue(JOBS / 2, JOBS);

    await until("others to take over what the stopped process held", () => allTaken(scene, held));
    sleeper.child.kill("SIGCONT");
    sleeper.tell("go on");
    const back = await sleeper.reported("came back");
    const lost = held.map(() => "lost" as const);
    assert.deepEqual([back.start, back.extend, back.settle], [lost, lost, lost]);

    await until("every job to be finished", async () => (await unfinished(scene)) === 0);
    for (const worker of workers) if (worker !== hoarder) worker.tell("stop");
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
      for (const outcome of report.outcomes) history.settled(worker, { ...outcome, to: "completed" }, outcome.answer);
    }
  }
  history.assertOneLeaseAtATime();
  history.assertOneEnding();
  await assertNothingVanished(store, ids.length, 0);
  const records = await allRecords(store);
  for (const id of ids) {
    const record = records.get(id);
    assert.equal(record?.state, "completed", `job ${id}`);
    // The killed process may have taken one step that it did not live to report.
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
  return JOBS - counts.reduce((sum, row) => sum + (row.state === "completed" ? row.count : 0), 0);
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
  tell(order: Order): void;
  kill(): void;
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
    batch: BATCH,
    seed: 1,
    ...given,
  };
  const script = fileURLToPath(new URL("./process.js", import.meta.url));
  // Options of the test runner's own process are not for its children.
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
    tell: (order) => void child.send(order),
    kill: () => void child.kill("SIGKILL"),
    ended,
  };
}
