import { job, type HandlerClient, type JobId } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { scene } from "./scene.js";

const child = job({ type: "child", input: z.object({ n: z.number() }), run: ({ input }) => input.n });

describe("the client in a handler", () => {
  it("enqueues jobs that carry the parent's id", async () => {
    const parent = job({
      type: "parent",
      async run({ hf, job: { id } }) {
        await hf.enqueue(child, { n: 1 }, { tags: ["one"] });
        await hf.enqueueMany(child, [{ n: 2 }, { n: 3 }]);
        await hf.enqueueNamed("elsewhere", { n: 4 });
        return id;
      },
    });
    const { hf } = await scene({ jobs: [parent, child] });
    const { id } = await hf.enqueue(parent);
    await hf.runNext();
    const { jobs } = await hf.list({ parent: id, order: "oldest" });
    expect(jobs.map((each) => [each.type, each.parent, each.input])).toEqual([
      ["child", id, { n: 1 }],
      ["child", id, { n: 2 }],
      ["child", id, { n: 3 }],
      ["elsewhere", id, { n: 4 }],
    ]);
    expect(await hf.get(id)).toMatchObject({ parent: null, output: id });
  });

  it("shows a handler its own parent", async () => {
    const seen: (string | null)[] = [];
    const inner = job({ type: "inner", run: ({ job: { parent } }) => void seen.push(parent) });
    const outer = job({ type: "outer", run: async ({ hf }) => void (await hf.enqueue(inner)) });
    const { hf } = await scene({ jobs: [inner, outer] });
    const { id } = await hf.enqueue(outer);
    await hf.drain();
    expect(seen).toEqual([id]);
  });

  it("passes the parent's trace on without telemetry", async () => {
    const outer = job({ type: "outer", run: async ({ hf }) => void (await hf.enqueue(child, { n: 1 })) });
    const { hf, store } = await scene({ jobs: [outer, child] });
    const { id } = await hf.enqueue(outer);
    const trace = JSON.stringify({ traceparent: "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01" });
    await retrace(store.store, id, trace);
    await hf.runNext();
    const { jobs } = await hf.list({ parent: id });
    expect(jobs[0]?.trace).toEqual(JSON.parse(trace));
  });

  it("reads jobs", async () => {
    const reader = job({
      type: "reader",
      input: z.object({ id: z.string() }),
      run: async ({ hf, input }) => (await hf.get(input.id as JobId<number>))?.output ?? null,
    });
    const { hf } = await scene({ jobs: [reader, child] });
    const { id } = await hf.enqueue(child, { n: 7 });
    await hf.runNext();
    const read = await hf.enqueue(reader, { id });
    await hf.runNext();
    expect(await hf.result(read.id)).toBe(7);
  });

  it("refuses an invalid input, and the attempt fails", async () => {
    const outer = job({ type: "outer", run: async ({ hf }) => void (await hf.enqueue(child, { n: "one" } as never)) });
    const { hf, job: read } = await scene({ jobs: [outer, child] });
    const { id } = await hf.enqueue(outer);
    await hf.runNext();
    expect(await read(id)).toMatchObject({ state: "failed", error: { code: "INVALID_INPUT" } });
  });

  it("is the same object for the whole attempt and can be taken apart", async () => {
    const clients = new Set<HandlerClient>();
    const outer = job({
      type: "outer",
      async run(context) {
        const { enqueue } = context.hf;
        await enqueue(child, { n: 1 });
        clients.add(context.hf).add({ ...context }.hf);
      },
    });
    const { hf } = await scene({ jobs: [outer, child] });
    await hf.enqueue(outer);
    await hf.runNext();
    expect(clients.size).toBe(1);
    expect((await hf.list({ type: child })).jobs).toHaveLength(1);
  });
});

/** Replaces a job by one with this trace and the same id. */
async function retrace(store: import("holdfast").Store, id: string, trace: string): Promise<void> {
  const stored = (await store.get(id))!;
  await store.remove([id]);
  const { type, queue, priority, user, input, maxAttempts, tags, schedule, parent, settings } = stored;
  const own = { runAt: null, delayMs: 0, expiresAt: null, unique: null };
  await store.insert([
    { id, type, queue, priority, user, input, maxAttempts, tags, schedule, parent, settings, ...own, trace },
  ]);
}
