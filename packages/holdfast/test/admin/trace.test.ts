import type { Telemetry } from "holdfast";
import { describe, expect, it } from "vitest";
import { adminScene, adminStores, mail } from "./scene.js";

const STORES = adminStores();

describe.each(STORES)("the trace context on %s", (_name, store) => {
  it("is shown in jobs.get, but not to users", async () => {
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const telemetry: Telemetry = {
      enqueue: () => ({ carrier: { traceparent }, end: () => {} }),
      run: () => expect.fail("nothing runs"),
    };
    const { hf, as } = await adminScene(store(), {}, { telemetry });
    const { id } = await hf.enqueue(mail, { to: "ada" }, { user: "ada" });
    expect(await hf.get(id)).toMatchObject({ trace: { traceparent } });
    const client = await as("viewer");
    expect((await client.jobs.get({ id })).trace).toEqual({ traceparent });
    expect((await client.jobs.list()).jobs[0]).not.toHaveProperty("trace");
    expect((await (await as("user", "ada")).jobs.get({ id })).trace).toBeNull();
    const { id: untraced } = await hf.schedules
      .create("s", { job: mail, input: { to: "ada" }, every: "1h" })
      .then(() => hf.schedules.runNow("s"));
    expect((await client.jobs.get({ id: untraced })).trace).toBeNull();
  });
});
