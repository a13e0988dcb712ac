import { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { runInNewContext } from "node:vm";
import type * as own from "holdfast";
import { holdfast, job, NotRetryable, RetryAfter, StoreUnavailableError, type Job } from "holdfast";
import { sqlite } from "holdfast/sqlite";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { eventsOf, scene, watch } from "./scene.js";

let other: typeof own;

/** Another copy of the package, like a second version in node_modules. */
beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-copy-"));
  const dist = dirname(fileURLToPath(import.meta.resolve("holdfast")));
  cpSync(dist, join(folder, "dist"), { recursive: true });
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  symlinkSync(fileURLToPath(new URL("../../../../node_modules", import.meta.url)), join(folder, "node_modules"));
  other = (await import(pathToFileURL(join(folder, "dist/index.js")).href)) as typeof own;
  return () => rmSync(folder, { recursive: true, force: true });
});

/** The result of a job whose handler throws this. */
async function thrown(error: unknown, options: { redact?: string[] } = {}): Promise<{ job: Job; waitsMs: number }> {
  const type = job({
    type: "t",
    run() {
      throw error;
    },
  });
  const { hf, clock, job: read } = await scene({ jobs: [type], ...options });
  const { id } = await hf.enqueue(type);
  await hf.drain();
  const found = await read(id);
  return { job: found, waitsMs: (found.dueAt?.getTime() ?? 0) - clock.now() };
}

describe("errors of another copy of the package", () => {
  it("have another class with the same name", () => {
    expect(new other.NotRetryable("x")).not.toBeInstanceOf(NotRetryable);
  });

  it("NotRetryable is final", async () => {
    const { job: found } = await thrown(new other.NotRetryable("gone for good"));
    expect(found).toMatchObject({ state: "dead", error: { message: "gone for good", code: "NOT_RETRYABLE" } });
  });

  it("RetryAfter sets the delay", async () => {
    const { job: found, waitsMs } = await thrown(new other.RetryAfter("7m", "busy"));
    expect([found.state, found.error?.code, waitsMs]).toEqual(["failed", "RETRY_AFTER", 420_000]);
  });

  it("are recognized in subclasses with their own code", async () => {
    class Gone extends other.NotRetryable {
      override readonly code = "E_GONE";
    }
    const { job: found } = await thrown(new Gone("gone"));
    expect(found).toMatchObject({ state: "dead", error: { code: "E_GONE" } });
  });

  it("are not recognized by their fields alone", async () => {
    const { job: found } = await thrown(
      Object.assign(new Error("no"), { code: "NOT_RETRYABLE", name: "NotRetryable" }),
    );
    expect(found.state).toBe("failed");
  });

  it("report an outage of a store", async () => {
    const type = job({ type: "t", run: () => "done" });
    const store = watch(sqlite(":memory:"));
    const hf = await holdfast({ store: store.store, jobs: [type], logger: false });
    onTestFinished(() => hf.close());
    const outages = eventsOf(hf, "outage");
    const { id } = await hf.enqueue(type);
    const mend = store.fail(new other.StoreUnavailableError("gone for a moment"), "settle");
    hf.on("outage", () => mend());
    expect(await hf.drain()).toBe(1);
    expect([(await hf.get(id))?.state, outages.length]).toEqual(["completed", 1]);
    expect(new other.StoreUnavailableError("x")).not.toBeInstanceOf(StoreUnavailableError);
  });
});

describe("the error of an attempt", () => {
  it("of another realm keeps its message", async () => {
    const { job: found } = await thrown(
      runInNewContext(`Object.assign(new TypeError("far away"), { code: "E_FAR", status: 503 })`),
    );
    expect(found).toMatchObject({ error: { message: "far away", code: "E_FAR" } });
    expect(found.attempts[0]?.error).toMatchObject({ message: "far away", data: { status: 503 }, cause: null });
    expect(found.attempts[0]?.error?.stack).toMatch(/^TypeError: far away/);
  });

  it("of a circular object keeps its message", async () => {
    const odd: Record<string, unknown> = { message: "round and round", code: 42 };
    odd["self"] = odd;
    const { job: found } = await thrown(odd);
    expect(found.error).toMatchObject({ message: "round and round", code: "42" });
  });

  it("keeps causes, three deep", async () => {
    const chain = [1, 2, 3, 4, 5].reduce((cause, n) => new Error(`cause ${n}`, { cause }), new Error("the first"));
    const { job: found } = await thrown(chain);
    const messages: string[] = [];
    for (let at = found.attempts[0]?.error ?? null; at !== null; at = at.cause) messages.push(at.message);
    expect(messages).toEqual(["cause 5", "cause 4", "cause 3", "cause 2"]);
  });

  it("has null without cause and data", async () => {
    const { job: found } = await thrown(new Error("plain"));
    expect(found.attempts[0]?.error).toMatchObject({ cause: null, data: null });
  });

  it("is redacted before it is stored", async () => {
    const error = Object.assign(new Error("declined"), { card: "4242", password: "hunter2" });
    const { job: found } = await thrown(error, { redact: ["**.card"] });
    expect(found.attempts[0]?.error?.data).toEqual({ card: "[redacted]", password: "[redacted]" });
  });

  it("of this copy: RetryAfter is recognized", async () => {
    const { waitsMs } = await thrown(new RetryAfter("2m"));
    expect(waitsMs).toBe(120_000);
  });
});
