import { holdfast, job, type Store } from "holdfast";
import { expect, it, onTestFinished } from "vitest";
import { scene, type WatchedStore } from "./scene.js";

/** The same store, with the capability `metered`. */
function metered({ store }: WatchedStore): Store {
  const capabilities = { ...store.capabilities, metered: true };
  return new Proxy(store, {
    get: (target, property) =>
      property === "capabilities" ? capabilities : (Reflect.get(target, property) as unknown),
  });
}

it("on a metered store an idle worker polls less and less", async () => {
  const { store, clock, another } = await scene();
  const hf = await another({}, metered(store));
  hf.work();
  await clock.settle();
  const polls: number[] = [];
  const start = clock.now();
  for (let second = 0; second < 60; second++) {
    store.forget();
    await clock.advance("1s");
    if (store.count("claim") > 0) polls.push((clock.now() - start) / 1_000);
  }
  expect(polls).toEqual([1, 3, 7, 15, 25, 35, 45, 55]);
});

it("a hint makes it poll immediately, and often while there is work", async () => {
  const ran: string[] = [];
  const type = job({ type: "mail", run: ({ job: { id } }) => void ran.push(id) });
  const { store, clock, another } = await scene();
  const hf = await another({ jobs: [type] }, metered(store));
  hf.work();
  await clock.advance("30s");
  const { id } = await hf.enqueue(type);
  await clock.settle();
  expect(ran).toEqual([id]);
  store.forget();
  await clock.advance("3s");
  expect(store.count("claim")).toBeGreaterThanOrEqual(2);
});

it("a longer poll interval is unchanged", async () => {
  const { store, clock } = await scene();
  const hf = await holdfast({ store: metered(store), clock, logger: false });
  onTestFinished(() => hf.close());
  hf.work({ poll: "30s" });
  await clock.settle();
  store.forget();
  await clock.advance("2m");
  expect(store.count("claim")).toBe(4);
});

it("a search and a count read one page per call", async () => {
  const type = job({ type: "mail", run: () => {} });
  const { store, another } = await scene();
  const source = metered(store);
  const hf = await another({ jobs: [type] }, without(source, "skip"));
  await hf.enqueueMany(
    type,
    Array.from({ length: 250 }, () => ({})),
    { tags: ["x"] },
  );
  store.forget();
  const { examined, cursor } = await hf.list({ input: { text: "none" } });
  expect([examined, cursor !== null, store.count("list")]).toEqual([100, true, 1]);
  expect(await hf.count({ tag: "x" })).toEqual({ count: 100, exact: false });
  expect(store.count("list")).toBe(2);
});

/** The same store without an optional method. */
function without(store: Store, name: keyof Store): Store {
  return new Proxy(store, {
    get: (target, property) => (property === name ? undefined : (Reflect.get(target, property) as unknown)),
  });
}
