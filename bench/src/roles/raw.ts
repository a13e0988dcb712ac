import { setTimeout as sleep } from "node:timers/promises";
import { openRaw } from "../raw.js";
import type { Timed } from "./enqueue.js";
import { REST_MS, warmUpOf } from "./latency.js";
import type { Stage } from "./role.js";

export interface RawOrder {
  url: string;
  count: number;
  batch: number;
}

const WARM_UP = 20;

/** Claims and completes batch by batch until nothing is due. */
export async function rawDrain({ url, count, batch }: RawOrder, stage: Stage): Promise<Timed & { cpuSeconds: number }> {
  const raw = await openRaw(url);
  await stage.ready();
  const cpuBefore = process.cpuUsage();
  const begun = performance.now();
  let done = 0;
  for (;;) {
    const leases = await raw.claim(batch);
    if (leases.length === 0) break;
    await raw.settle(leases);
    done += leases.length;
  }
  const seconds = (performance.now() - begun) / 1_000;
  const cpu = process.cpuUsage(cpuBefore);
  await raw.close();
  if (done !== count) throw new Error(`the raw drain ended after ${done} of ${count} jobs`);
  return { seconds, count, cpuSeconds: (cpu.user + cpu.system) / 1e6 };
}

/** Inserts in transactions of `batch` rows. */
export async function rawInsert({ url, count, batch }: RawOrder, stage: Stage): Promise<Timed> {
  const raw = await openRaw(url);
  for (let index = 0; index < WARM_UP; index++) await raw.insert(1);
  await stage.ready();
  const begun = performance.now();
  for (let left = count; left > 0; left -= batch) await raw.insert(Math.min(batch, left));
  const seconds = (performance.now() - begun) / 1_000;
  await raw.close();
  return { seconds, count };
}

/** The two commits that an enqueue-to-start needs: that of the insert and that of the claim. Returns milliseconds. */
export async function rawTwoCommits({ url, count }: RawOrder, stage: Stage): Promise<number[]> {
  const raw = await openRaw(url);
  await stage.ready();
  const taken: number[] = [];
  const warmUp = warmUpOf(count);
  for (let index = 0; index < warmUp + count; index++) {
    const begun = performance.now();
    await raw.insert(1);
    const leases = await raw.claim(1);
    if (index >= warmUp) taken.push(performance.now() - begun);
    await raw.settle(leases);
    await sleep(REST_MS);
  }
  await raw.close();
  return taken;
}
