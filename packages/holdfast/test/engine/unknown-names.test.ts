import { job, StoreUnavailableError } from "holdfast";
import { describe, expect, it } from "vitest";
import { scene } from "./scene.js";

const mail = job({ type: "mail.send", queue: "mail", run() {} });
const report = job({ type: "report", run() {} });
const QUEUES = "this worker claims from queues that no job type here uses and the store does not know. Misspelt?";
const TYPES = "no handler here for types that this worker claims. Misspelt, or missing from holdfast({ jobs })?";

describe("a worker on an unknown queue", () => {
  it("is logged with the known queues, once per queue", async () => {
    const { hf, clock, lines } = await scene({ jobs: [mail] });
    await hf.enqueue(report, undefined, { queue: "reports" });
    hf.work({ queues: ["mial"] });
    await clock.settle();
    hf.work({ queues: ["mial", "reprots", "mail"] });
    await clock.settle();
    expect(lines).toEqual([
      { level: "warn", fields: { queues: "mial", known: "mail, reports" }, message: QUEUES },
      { level: "warn", fields: { queues: "reprots", known: "mail, reports" }, message: QUEUES },
    ]);
  });

  it("is not logged if a job type or a job uses the queue", async () => {
    const { hf, clock, lines, store } = await scene({ jobs: [mail] });
    hf.work({ queues: ["mail"] });
    await clock.settle();
    expect(store.count("queues")).toBe(0);
    await hf.enqueue(mail, undefined, { queue: "other" });
    hf.work({ queues: ["mail", "other"] });
    await clock.settle();
    expect(lines).toEqual([]);
  });

  it("starts before the queues are listed", async () => {
    const { hf, clock, lines, store } = await scene({ jobs: [mail] });
    const release = store.hold("queues");
    const slow = hf.work({ queues: ["express"] });
    const { id } = await hf.enqueue(mail, undefined, { queue: "express" });
    await clock.settle();
    expect(await hf.get(id)).toMatchObject({ state: "completed", worker: slow.id });
    release();
    store.fail(new StoreUnavailableError("away"), "queues");
    hf.work({ queues: ["mial"] });
    await clock.settle();
    expect(lines).toEqual([]);
  });
});

describe("a worker for types without a handler", () => {
  it("is logged with the known types", async () => {
    const { hf, clock, lines } = await scene({ jobs: [mail, report] });
    hf.work({ types: [mail, "mail.sned"] });
    hf.work({ types: [report] });
    await clock.settle();
    expect(lines).toEqual([
      { level: "warn", fields: { types: "mail.sned", known: "mail.send, report" }, message: TYPES },
    ]);
  });
});
