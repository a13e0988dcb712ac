import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { connect, open, tempFile } from "./scene.js";

const text = job({ type: "text", input: z.object({ text: z.string() }), run: () => ({}) });

describe("a damaged row does not stop other jobs", () => {
  it.each([
    ["a missing large input", "DELETE FROM holdfast_inputs WHERE job = 3", "dead"],
    ["an input that is not JSON", "UPDATE holdfast_jobs SET input = '{' WHERE seq = 3", "dead"],
    ["tags that are not JSON", "UPDATE holdfast_jobs SET tags = '[' WHERE seq = 3", "completed"],
  ])("%s", async (_what, damage, fate) => {
    const file = tempFile();
    const hf = await open(file, { jobs: [text] });
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.push((await hf.enqueue(text, { text: "x".repeat(600) })).id);
    connect(file).exec(damage);
    await hf.drain();
    const states = await Promise.all(
      ids.map(async (id) => (await hf.list({ limit: 10 })).jobs.find((j) => j.id === id)?.state),
    );
    expect(states).toEqual(["completed", "completed", fate, "completed", "completed"]);
    const error = (await hf.get(ids[2] ?? ""))?.error;
    expect(error?.code).toBe(fate === "dead" ? "INVALID_INPUT" : undefined);
  });

  it("hf.claim still returns its lease", async () => {
    const file = tempFile();
    const hf = await open(file, { jobs: [text] });
    for (let n = 0; n < 3; n++) await hf.enqueue(text, { text: "short" });
    connect(file).exec("UPDATE holdfast_jobs SET input = '{' WHERE seq = 2");
    const leases = await hf.claim({ limit: 3 });
    expect(leases).toHaveLength(3);
    expect(() => leases[1]?.input).toThrow(SyntaxError);
    for (const lease of leases) await lease.release();
  });
});

describe("claims limited by bytes", () => {
  it("are followed by the next claim, in any alphabet", async () => {
    const hf = await open(tempFile(), { jobs: [text] });
    // 150 KB each in UTF-8, a third of that in UTF-16 units: seven per claim.
    await hf.enqueueMany(
      text,
      Array.from({ length: 30 }, () => ({ text: "語".repeat(50_000) })),
    );
    const done = new Promise<void>((resolve) => {
      let count = 0;
      hf.on("completed", () => void (++count === 30 && resolve()));
    });
    // If the worker took such a claim for the last one, it would wait for this poll.
    hf.work({ concurrency: 20, poll: "10m" });
    await done;
  });
});
