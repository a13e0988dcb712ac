import { holdfast, job, type Holdfast, type ListOptions } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { cleanup, double, fileStore, jobOf, open, START } from "./scene.js";

const number = z.object({ n: z.number() });
const early = job({ type: "early", input: number, run: () => {} });
const late = job({ type: "late", input: number, run: () => {} });

const numbers = async (hf: Holdfast, options: ListOptions): Promise<number[]> =>
  (await hf.list(options)).jobs.map((found) => (found.input as { n: number }).n);

describe("get", () => {
  it("returns the whole record, or null", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(double, { n: 1 });
    expect(await hf.get(id.toUpperCase())).toMatchObject({ id, state: "pending", input: { n: 1 } });
    expect(await hf.get("018f4d2e-7b3a-7c11-8a55-0123456789ab")).toBeNull();
  });

  it("returns an input of 100 KB in full", async () => {
    const { hf } = await open();
    const text = job({ type: "text", input: z.string(), run: () => {} });
    const long = "äöü€😀".repeat(10_000);
    const { id } = await hf.enqueue(text, long);
    expect((await jobOf(hf, id)).input).toBe(long);
    expect((await hf.list()).jobs[0]?.input).toBe(long);
  });
});

describe("list", () => {
  it("omits inputs and outputs on request", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(double, { n: 1 });
    await (await hf.claim())[0]?.complete({ twice: 2 });
    expect((await hf.list({ payloads: false })).jobs).toMatchObject([
      { id, state: "completed", input: null, output: null },
    ]);
    expect((await hf.list({ payloads: true })).jobs).toMatchObject([{ id, input: { n: 1 }, output: { twice: 2 } }]);
    expect((await hf.forUser("ada").list({ payloads: false })).jobs).toEqual([]);
  });

  /** Jobs 0 to 7, a minute apart, of different kinds, some of them finished. */
  async function eight(): Promise<Holdfast> {
    const { hf, clock } = await open();
    for (let n = 0; n < 8; n++) {
      const options = {
        queue: n % 2 === 0 ? "even" : "odd",
        user: n < 4 ? "ada" : "bob",
        tags: n % 3 === 0 ? ["third", "all"] : ["all"],
        priority: n,
      };
      await hf.enqueue(n < 6 ? early : late, { n }, options);
      await clock.advance("1m");
    }
    const [seven, six, five] = await hf.claim({ limit: 3 });
    await seven?.complete();
    await six?.fail("broken");
    await five?.fail("broken", { retry: false });
    await hf.cancel((await hf.list({ limit: 1, state: "pending" })).jobs[0]!.id);
    return hf;
  }
  const at = (minute: number): Date => new Date(START + minute * 60_000);

  it.each<[string, ListOptions, number[]]>([
    ["everything, newest first", {}, [7, 6, 5, 4, 3, 2, 1, 0]],
    ["a state", { state: "pending" }, [3, 2, 1, 0]],
    ["several states", { state: ["completed", "dead", "cancelled"] }, [7, 5, 4]],
    ["failed jobs, which wait for their retry", { state: "failed" }, [6]],
    ["a state that no job has", { state: "running" }, []],
    ["a type", { type: "late" }, [7, 6]],
    ["a type by its job type", { type: early, state: "pending" }, [3, 2, 1, 0]],
    ["several types", { type: ["late", early], limit: 3 }, [7, 6, 5]],
    ["a queue", { queue: "odd" }, [7, 5, 3, 1]],
    ["several queues", { queue: ["odd", "even"], state: "pending" }, [3, 2, 1, 0]],
    ["a user", { user: "ada" }, [3, 2, 1, 0]],
    ["a tag", { tag: "third" }, [6, 3, 0]],
    ["jobs created from a time on", { createdAfter: at(6) }, [7, 6]],
    ["jobs created before a time", { createdBefore: at(2) }, [1, 0]],
    ["a span of time", { createdAfter: at(2).getTime(), createdBefore: at(4).toISOString() }, [3, 2]],
    ["all conditions at once", { queue: "even", user: "ada", tag: "all", state: "pending", type: "early" }, [2, 0]],
    ["conditions that exclude each other", { user: "ada", type: "late" }, []],
    ["unused names", { queue: "__proto__" }, []],
  ])("%s", async (_name, options, expected) => {
    expect(await numbers(await eight(), options)).toEqual(expected);
  });

  it("pages by cursor; the last page has none", async () => {
    const hf = await eight();
    const seen: number[] = [];
    let cursor: string | null = null;
    let pages = 0;
    do {
      const page: Awaited<ReturnType<Holdfast["list"]>> = await hf.list({ limit: 3, cursor });
      seen.push(...page.jobs.map((found) => (found.input as { n: number }).n));
      cursor = page.cursor;
      pages++;
    } while (cursor !== null);
    expect(seen).toEqual([7, 6, 5, 4, 3, 2, 1, 0]);
    expect(pages).toBe(3);
    expect((await hf.list({ limit: 8 })).cursor).toBeNull();
  });

  it("new jobs between two pages neither repeat nor hide any", async () => {
    const hf = await eight();
    const first = await hf.list({ limit: 5 });
    await hf.enqueueMany(double, [{ n: 8 }, { n: 9 }]);
    expect(await numbers(hf, { cursor: first.cursor })).toEqual([2, 1, 0]);
  });

  it("a page has 50 jobs by default, at most 1000", async () => {
    const { hf } = await open();
    await hf.enqueueMany(
      double,
      Array.from({ length: 1_001 }, (_, n) => ({ n })),
    );
    expect((await hf.list()).jobs).toHaveLength(50);
    const page = await hf.list({ limit: 1_000 });
    expect(page.jobs).toHaveLength(1_000);
    expect((await hf.list({ limit: 1_000, cursor: page.cursor })).jobs).toHaveLength(1);
  });

  it("has no history and no log", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(cleanup);
    const [lease] = await hf.claim();
    await lease?.fail(new Error("broken"));
    expect((await hf.list()).jobs[0]).toMatchObject({ id, attempts: [], log: [], error: { message: "broken" } });
    expect((await jobOf(hf, id)).attempts).toHaveLength(1);
  });
});

it("two clients of one file see each other's jobs", async () => {
  const store = await fileStore();
  const one = await holdfast({ store });
  const two = await holdfast({ store });
  const { id } = await one.enqueue(double, { n: 1 }, { user: "ada" });
  expect(await two.get(id)).toMatchObject({ id, user: "ada", input: { n: 1 } });
  expect(await two.cancel(id)).toBe("cancelled");
  expect((await one.list({ state: "cancelled" })).jobs.map((found) => found.id)).toEqual([id]);
  await Promise.all([one.close(), two.close()]);
});
