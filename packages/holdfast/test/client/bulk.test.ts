import { holdfast, job, type Holdfast } from "holdfast";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";

const mail = job({
  type: "mail",
  input: z.object({ to: z.string() }),
  retry: { maxAttempts: 1 },
  queue: "letters",
  run({ input }) {
    if (input.to === "bounce") throw new Error("no such address");
  },
});

async function open(): Promise<Holdfast> {
  const hf = await holdfast({ store: "sqlite::memory:", jobs: [mail], logger: false });
  onTestFinished(() => hf.close());
  return hf;
}

async function many(hf: Holdfast, count: number, to = "ada"): Promise<string[]> {
  const results = await hf.enqueueMany(
    mail,
    Array.from({ length: count }, () => ({ to })),
  );
  return results.map(({ id }) => id ?? "");
}

describe("changes of many jobs", () => {
  it("by ids return one result per id, in order", async () => {
    const hf = await open();
    const ids = await many(hf, 450);
    const missing = "01a1e0d0-d1c0-79bf-a2c2-8d02453060e6";
    const results = await hf.cancel([...ids, missing]);
    expect(results).toEqual([...ids.map(() => "cancelled"), "missing"]);
    expect(await hf.retry(ids.slice(0, 2))).toEqual(["retried", "retried"]);
    expect(await hf.remove([ids[2] ?? "", missing])).toEqual(["removed", "missing"]);
    expect(await hf.cancel([])).toEqual([]);
    await expect(hf.cancel(["nonsense"])).rejects.toMatchObject({ code: "INVALID_OPTION" });
  });

  it("by filter report progress and can be aborted", async () => {
    const hf = await open();
    await many(hf, 500, "bounce");
    await hf.drain();
    const reports: { examined: number; changed: number }[] = [];
    expect(await hf.retry({ state: "dead" }, { onProgress: (progress) => void reports.push(progress) })).toBe(500);
    expect(reports).toEqual([200, 400, 500].map((count) => ({ examined: count, changed: count })));
    const stop = new AbortController();
    const cancelling = hf.cancel({ state: "pending" }, { signal: stop.signal, onProgress: () => stop.abort() });
    await expect(cancelling).rejects.toMatchObject({ name: "AbortError" });
    expect((await hf.stats()).states).toMatchObject({ cancelled: 200, pending: 300 });
    await expect(hf.cancel({ state: "pending" }, { onprogress: 1 } as never)).rejects.toThrow(/onprogress/);
  });
});

describe("enqueueNamed", () => {
  it("uses schema, queue and attempts of a known type", async () => {
    const hf = await open();
    const { id } = await hf.enqueueNamed("mail", { to: "ada" }, { priority: 3 });
    expect(await hf.get(id)).toMatchObject({ type: "mail", queue: "letters", maxAttempts: 1, priority: 3 });
    await expect(hf.enqueueNamed("mail", { to: 5 })).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });

  it("accepts any input for an unknown type", async () => {
    const hf = await open();
    for (const input of [undefined, null, "text", 5, ["a"], { a: { b: null } }]) {
      const { id } = await hf.enqueueNamed("elsewhere", input);
      expect(await hf.get(id)).toMatchObject({ type: "elsewhere", input: input === undefined ? {} : input });
    }
    await expect(hf.enqueueNamed("", {})).rejects.toMatchObject({ code: "INVALID_OPTION", field: "type" });
    await expect(hf.enqueueNamed("x", { a: 1n })).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });
});

describe("rerun with another input", () => {
  it("checks the schema, and leaves the old job unchanged", async () => {
    const hf = await open();
    const { id } = await hf.enqueue(mail, { to: "bounce" }, { user: "ada", tags: ["x"] });
    await hf.drain();
    const again = await hf.rerun(id, { input: { to: "ada" } });
    expect(await hf.get(again.id)).toMatchObject({ input: { to: "ada" }, user: "ada", tags: ["x"], state: "pending" });
    expect(await hf.get(id)).toMatchObject({ state: "dead", input: { to: "bounce" } });
    await expect(hf.rerun(id, { input: { to: 1 } })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(hf.rerun(id, { imput: {} } as never)).rejects.toThrow(/imput/);
  });
});
