import { describe, expect, it } from "vitest";
import { startChild } from "./child.js";
import { faultyDisk } from "./faults.js";
import { bestOf, tempFile } from "./scene.js";

const MAX_DELAY_MS = 10;
const SYNC_MS = 40;

async function longestDelayMs(scene: string, file: string, env: NodeJS.ProcessEnv = {}): Promise<number> {
  const child = startChild("loop.mjs", [scene, file], env);
  const { longestMs } = await child.next("measured");
  expect(await child.ended()).toBe(0);
  return longestMs;
}

describe("the application's event loop is blocked for less than 10 ms", () => {
  it("while 20,000 jobs are drained", async () => {
    const longest = await bestOf(() => longestDelayMs("drains", tempFile()), MAX_DELAY_MS);
    expect(longest).toBeLessThan(MAX_DELAY_MS);
  });

  it("while another connection holds the write lock for a second", async () => {
    const longest = await bestOf(() => longestDelayMs("finds the file locked", tempFile()), MAX_DELAY_MS);
    expect(longest).toBeLessThan(MAX_DELAY_MS);
  });

  it("while the disk is slow to sync", async ({ skip }) => {
    const file = tempFile();
    const disk = faultyDisk(file, skip);
    disk.slowSync(SYNC_MS);
    const longest = await bestOf(() => longestDelayMs("waits for the disk", file, disk.env), MAX_DELAY_MS);
    expect(longest).toBeLessThan(MAX_DELAY_MS);
  });
});
