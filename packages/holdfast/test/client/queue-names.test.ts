import { job } from "holdfast";
import { admin, adminClient } from "holdfast/admin";
import { describe, expect, it } from "vitest";
import { cleanup, errorOf, open } from "./scene.js";

type Client = Awaited<ReturnType<typeof open>>["hf"];

/** Calls in which a user may write `*` for all queues. */
const CALLS: Record<string, (hf: Client) => unknown> = {
  pause: (hf) => hf.pause("*"),
  resume: (hf) => hf.resume("*"),
  work: (hf) => hf.work({ queues: ["mail", "*"] }),
  claim: (hf) => hf.claim({ queues: ["*"] }),
  list: (hf) => hf.list({ queue: "*" }),
  cancel: (hf) => hf.cancel({ queue: ["*"] }),
  enqueue: (hf) => hf.enqueue(cleanup, {}, { queue: "*" }),
  schedule: (hf) => hf.schedule("s", { job: cleanup, every: "1h", queue: "*" }),
  job: () => job({ type: "t", queue: "*", run: () => {} }),
};

describe("the queue *", () => {
  it.each(Object.entries(CALLS))("is refused by %s, with what to do", async (_, call) => {
    const { hf } = await open();
    const error = await errorOf((async () => call(hf))());
    expect(error).toMatchObject({ code: "INVALID_OPTION" });
    expect((error as Error).message).toMatch(/^queues?(?:\.\d)?: "\*" is not a queue name.+hf\.queues\(\)/);
    expect(await hf.queues()).toEqual([]);
  });

  it("pause and resume do not advise to omit an option", async () => {
    const { hf } = await open();
    for (const call of ["pause", "resume"] as const) {
      const message = `queue: "*" is not a queue name and does not mean all queues; name each queue (hf.queues() lists them); for all queues call ${call}() without an argument`;
      expect(await errorOf(hf[call]("*"))).toMatchObject({ message });
    }
  });

  it("is refused by the API with 400", async () => {
    const { hf } = await open();
    const { fetch } = admin(hf, { auth: () => ({ name: "test", role: "admin", user: null }) });
    const client = adminClient({ fetch });
    expect(await errorOf(client.queues.pause({ queue: "*" }))).toMatchObject({ status: 400, code: "INVALID_REQUEST" });
  });

  it("cannot be paused", async () => {
    const { hf } = await open();
    await hf.pause("later");
    await hf.enqueue(cleanup, {}, { queue: "later" });
    expect(await hf.claim()).toEqual([]);
    await hf.resume("later");
    expect(await hf.claim()).toHaveLength(1);
  });
});
