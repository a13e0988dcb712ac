import { job, STATE_NAMES, type Holdfast, type Lease } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { cleanup, double, jobCount, jobOf, open, stateOf } from "./scene.js";

const missing = "018f4d2e-7b3a-7c11-8a55-0123456789ab";

/** One job in each state, by the name of the state. */
async function oneOfEach(): Promise<{ hf: Holdfast; ids: Record<string, string>; running: Lease }> {
  const { hf } = await open();
  const ids: Record<string, string> = {};
  const add = async (state: string): Promise<Lease> => {
    ids[state] = (await hf.enqueue(cleanup, {}, { priority: 9, tags: [state] })).id;
    const [lease] = await hf.claim();
    expect(lease?.id).toBe(ids[state]);
    return lease!;
  };
  await (await add("completed")).complete();
  await (await add("dead")).fail("broken", { retry: false });
  await (await add("failed")).fail("broken");
  await add("claimed");
  const running = await add("running");
  await running.start();
  for (const state of ["cancelled", "pending"]) ids[state] = (await hf.enqueue(cleanup, {}, { tags: [state] })).id;
  await hf.cancel(ids["cancelled"]!);
  for (const [state, id] of Object.entries(ids)) expect(await stateOf(hf, id)).toBe(state);
  return { hf, ids, running };
}

describe("cancel", () => {
  it.each([
    ["pending", "cancelled", "cancelled"],
    ["failed", "cancelled", "cancelled"],
    ["claimed", "requested", "claimed"],
    ["running", "requested", "running"],
    ["completed", "finished", "completed"],
    ["dead", "finished", "dead"],
    ["cancelled", "finished", "cancelled"],
  ])("C-07 a %s job: %s", async (state, result, after) => {
    const { hf, ids } = await oneOfEach();
    expect(await hf.cancel(ids[state]!)).toBe(result);
    const found = await jobOf(hf, ids[state]!);
    expect(found.state).toBe(after);
    if (result === "finished" && state !== "cancelled") expect(found.cancelRequestedAt).toBeNull();
    if (result !== "finished") expect(found.cancelRequestedAt).toBeInstanceOf(Date);
    if (result === "cancelled") expect(found).toMatchObject({ dueAt: null, finishedAt: expect.any(Date) });
  });

  it("a missing job: missing", async () => {
    const { hf } = await open();
    expect(await hf.cancel(missing)).toBe("missing");
  });

  it("by filter returns how many were cancelled or requested", async () => {
    const { hf, ids } = await oneOfEach();
    expect(await hf.cancel({ state: ["dead", "completed"] })).toBe(0);
    expect(await hf.cancel({ tag: "running" })).toBe(1);
    expect(await hf.cancel({ state: STATE_NAMES })).toBe(4);
    expect(await stateOf(hf, ids["pending"]!)).toBe("cancelled");
  });

  it("by filter covers several pages", async () => {
    const { hf } = await open();
    await hf.enqueueMany(
      double,
      Array.from({ length: 650 }, (_, n) => ({ n })),
    );
    await hf.enqueue(cleanup);
    expect(await hf.cancel({ type: double })).toBe(650);
    expect((await hf.stats()).states).toMatchObject({ cancelled: 650, pending: 1 });
  });

  it("a requested cancellation is confirmed by the lease holder, unless it completes", async () => {
    const { hf, ids, running } = await oneOfEach();
    await hf.cancel(ids["running"]!);
    expect(await running.extend()).toEqual({ cancelRequested: true });
    await running.complete({ done: true });
    expect(await jobOf(hf, ids["running"]!)).toMatchObject({ state: "completed", output: { done: true } });
  });

  it("emits an event", async () => {
    const { hf, ids } = await oneOfEach();
    const events: string[] = [];
    hf.on("cancelled", ({ id }) => events.push(id));
    await hf.cancel(ids["pending"]!);
    await hf.cancel(ids["dead"]!);
    expect(events).toEqual([ids["pending"]]);
  });
});

describe("retry", () => {
  it.each([
    ["dead", "retried"],
    ["cancelled", "retried"],
    ["failed", "retried"],
    ["pending", "not-retryable"],
    ["claimed", "not-retryable"],
    ["running", "not-retryable"],
    ["completed", "not-retryable"],
  ])("a %s job: %s", async (state, result) => {
    const { hf, ids } = await oneOfEach();
    const before = await jobOf(hf, ids[state]!);
    expect(await hf.retry(ids[state]!)).toBe(result);
    if (result === "not-retryable") expect(await jobOf(hf, ids[state]!)).toEqual(before);
  });

  it("E-03 C-08 a dead job becomes due with new attempts", async () => {
    const { hf, clock } = await open();
    const { id } = await hf.enqueue(cleanup, {}, { maxAttempts: 1 });
    const [lease] = await hf.claim();
    await lease?.fail("broken");
    await clock.advance("1h");
    expect(await hf.retry(id)).toBe("retried");
    const now = new Date(clock.now());
    const fresh = { state: "pending", attempt: 0, fence: 1, runAt: now, dueAt: now, finishedAt: null };
    expect(await jobOf(hf, id)).toMatchObject(fresh);
    const [again] = await hf.claim();
    expect(again).toMatchObject({ id, attempt: 1, fence: 2 });
  });

  it("C-08 a failed job skips its backoff", async () => {
    const { hf, ids } = await oneOfEach();
    await hf.pause("elsewhere");
    expect(await hf.retry(ids["failed"]!)).toBe("retried");
    expect((await hf.claim())[0]).toMatchObject({ id: ids["failed"], attempt: 2 });
  });

  it("by filter returns the count and emits events", async () => {
    const { hf, ids } = await oneOfEach();
    const events: string[] = [];
    hf.on("retried", ({ id }) => events.push(id));
    expect(await hf.retry({ state: ["dead", "completed"] })).toBe(1);
    expect(await hf.retry({ state: STATE_NAMES })).toBe(2);
    expect(events.toSorted()).toEqual([ids["dead"]!, ids["cancelled"]!, ids["failed"]!].toSorted());
    expect(await hf.retry(missing)).toBe("missing");
  });
});

describe("remove", () => {
  it("deletes jobs that are not leased, with tags and key", async () => {
    const { hf, ids } = await oneOfEach();
    const { id } = await hf.enqueue(cleanup, {}, { unique: { key: "k", scope: "forever" }, tags: ["t"] });
    expect(await hf.remove(id)).toBe("removed");
    expect(await hf.get(id)).toBeNull();
    expect((await hf.list({ tag: "t" })).jobs).toEqual([]);
    expect((await hf.enqueue(cleanup, {}, { unique: "k" })).duplicate).toBe(false);
    for (const state of ["claimed", "running"]) expect(await hf.remove(ids[state]!)).toBe("leased");
    expect(await hf.remove(id)).toBe("missing");
  });

  it("by filter returns the count and skips leased jobs", async () => {
    const { hf, ids } = await oneOfEach();
    const events: string[] = [];
    hf.on("removed", (event) => events.push(event.id));
    expect(await hf.remove({ state: "completed" })).toBe(1);
    expect(events).toEqual([ids["completed"]]);
    expect(await hf.remove({ state: STATE_NAMES })).toBe(4);
    expect(await jobCount(hf)).toBe(2);
  });
});

describe("rerun", () => {
  it.each(["completed", "dead", "pending", "running"])("copies a %s job and leaves it unchanged", async (state) => {
    const { hf, ids } = await oneOfEach();
    const before = await jobOf(hf, ids[state]!);
    const events: string[] = [];
    hf.on("enqueued", ({ id }) => events.push(id));
    const { id, duplicate } = await hf.rerun(before.id);
    expect({ duplicate, events }).toEqual({ duplicate: false, events: [id] });
    const { type, queue, priority, user, input, maxAttempts, tags } = before;
    const fresh = { state: "pending", attempt: 0, fence: 0, key: null, error: null, output: null, expiresAt: null };
    expect(await jobOf(hf, id)).toMatchObject({ type, queue, priority, user, input, maxAttempts, tags, ...fresh });
    expect(await jobOf(hf, before.id)).toEqual(before);
  });

  it("copies a large input, but not the key", async () => {
    const { hf } = await open();
    const text = job({ type: "text", input: z.object({ text: z.string() }), run: () => {} });
    const input = { text: "x".repeat(5_000) };
    const first = await hf.enqueue(text, input, { unique: "k", user: "ada" });
    const copy = await hf.rerun(first.id);
    expect(await jobOf(hf, copy.id)).toMatchObject({ input, key: null, user: "ada" });
    expect((await hf.enqueue(text, { text: "" }, { unique: "k", user: "ada" })).id).toBe(first.id);
  });
});
