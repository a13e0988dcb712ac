import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { job } from "holdfast";
import { describe, expect, it, onTestFinished } from "vitest";
import { eventsOf, onFile } from "./scene.js";

const slow = job({ type: "slow", run: () => ({ by: "the one that came after" }) });

function start(fixture: string, file: string): ChildProcess {
  const child = fork(fileURLToPath(new URL(`../fixtures/${fixture}.mjs`, import.meta.url)), [file]);
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}
async function says(child: ChildProcess): Promise<unknown> {
  const [message] = (await once(child, "message")) as [unknown];
  return message;
}
async function ends(child: ChildProcess): Promise<{ code: number | null; signal: string | null }> {
  if (child.exitCode !== null || child.signalCode !== null) return { code: child.exitCode, signal: child.signalCode };
  const [code, signal] = (await once(child, "exit")) as [number | null, string | null];
  return { code, signal };
}

describe("processes", () => {
  it("a process that only enqueues ends without close", async () => {
    const { hf, file } = await onFile();
    const child = start("enqueue-only", file);
    const id = await says(child);
    expect(await ends(child)).toEqual({ code: 0, signal: null });
    expect(await hf.get(String(id))).toMatchObject({ state: "pending", type: "hello" });
  });

  it("C-10 B-14 SIGTERM stops claims, waits for the job and exits", async () => {
    const { hf, file } = await onFile();
    const first = await hf.enqueue(slow);
    const second = await hf.enqueue(slow);
    const child = start("drain-on-signal", file);
    expect(await says(child)).toBe("running");
    const stopping = says(child);
    child.kill("SIGTERM");
    expect(await stopping).toBe("stopping");
    const ended = ends(child);
    child.send("finish");
    expect(await ended).toEqual({ code: 0, signal: null });
    expect(await hf.get(first.id)).toMatchObject({ state: "completed", output: { finished: true } });
    expect(await hf.get(second.id)).toMatchObject({ state: "pending", attempt: 0 });
  });

  it("two SIGTERMs within a second count as one", async () => {
    const { hf, file } = await onFile();
    const { id } = await hf.enqueue(slow);
    const child = start("drain-on-signal", file);
    expect(await says(child)).toBe("running");
    for (const _time of ["from the terminal", "handed on by a runner"]) {
      const message = says(child);
      child.kill("SIGTERM");
      expect(await message).toBe("stopping");
    }
    const ended = ends(child);
    child.send("finish");
    expect(await ended).toEqual({ code: 0, signal: null });
    expect(await hf.get(id)).toMatchObject({ state: "completed", output: { finished: true } });
  });

  it("a second SIGTERM after a second ends the process immediately", async () => {
    const { hf, file } = await onFile();
    const { id } = await hf.enqueue(slow);
    const child = start("drain-on-signal", file);
    expect(await says(child)).toBe("running");
    const stopping = says(child);
    child.kill("SIGTERM");
    expect(await stopping).toBe("stopping");
    expect(await says(child)).toBe("deaf");
    child.kill("SIGTERM");
    expect(await ends(child)).toEqual({ code: null, signal: "SIGTERM" });
    expect((await hf.get(id))?.state).toMatch(/claimed|running/);
  });

  it("A-35 C-02 a job of a killed server is recovered and retried", async () => {
    const { hf, file } = await onFile({ jobs: [slow] });
    const recovered = eventsOf(hf, "recovered");
    const { id } = await hf.enqueue(slow);
    const child = start("stuck-worker", file);
    expect(await says(child)).toBe("running");
    child.kill("SIGKILL");
    expect(await ends(child)).toEqual({ code: null, signal: "SIGKILL" });
    expect(await hf.get(id)).toMatchObject({ state: "running", attempt: 1 });

    hf.work();
    expect(await hf.result(slow, id)).toEqual({ by: "the one that came after" });
    const done = await hf.get(id);
    expect(done).toMatchObject({ state: "completed", attempt: 2, error: { message: "Job timed out (stale claim)" } });
    expect(done?.attempts).toMatchObject([
      { attempt: 1, error: { code: "STALE_CLAIM" } },
      { attempt: 2, end: "completed" },
    ]);
    expect(recovered).toEqual([{ id, type: "slow", queue: "default", to: "claimed" }]);
  });
});
