import type { AdminClient, AdminError } from "holdfast/admin";
import type { Holdfast } from "holdfast";
import { describe, expect, it } from "vitest";
import { LIMITS } from "#src/defaults.js";
import { adminScene, adminStores } from "./scene.js";

const STORES = adminStores();

const REDACT = { redact: ["input.password", "**.number", "input.keys.*"] };
const MARK = "[redacted]";
const STORED = {
  password: "hush",
  to: "ada",
  cards: [
    { number: "1", brand: "visa" },
    { number: "2", brand: "amex" },
  ],
};

type Input = Record<string, unknown>;

/** Ways to send a redacted payload back. Each returns what is stored afterwards. */
const WAYS: Record<string, (hf: Holdfast, client: AdminClient, edit: (shown: Input) => Input) => Promise<unknown>> = {
  "jobs.rerun": async (hf, client, edit) => {
    const { id } = await hf.enqueueNamed("pay", STORED);
    const { input } = await client.jobs.get({ id });
    const again = await client.jobs.rerun({ id, input: edit(input as Input) });
    return (await hf.get(again.id))?.input;
  },
  "jobs.update": async (hf, client, edit) => {
    const { id } = await hf.enqueueNamed("pay", STORED, { delay: "1h" });
    const { input } = await client.jobs.get({ id });
    await client.jobs.update({ id, input: edit(input as Input) });
    return (await hf.get(id))?.input;
  },
  "schedules.update": async (hf, client, edit) => {
    await hf.schedules.create("pay", { job: "pay", input: STORED, every: "1h" });
    const { input } = await client.schedules.get({ name: "pay" });
    await client.schedules.update({ name: "pay", input: edit(input as Input) });
    return (await hf.schedules.get("pay"))?.input;
  },
};

async function errorOf(call: Promise<unknown>): Promise<AdminError> {
  return call.then(
    () => expect.fail("the call succeeded"),
    (error: unknown) => error as AdminError,
  );
}

describe.each(STORES)("redacted values on %s", (_name, store) => {
  it.each(Object.keys(WAYS))("are restored by %s", async (way) => {
    const { hf, as } = await adminScene(store(), {}, REDACT);
    const client = await as("operator");
    const stored = await WAYS[way]?.(hf, client, (shown) => {
      expect(shown).toEqual({
        password: MARK,
        to: "ada",
        cards: [
          { number: MARK, brand: "visa" },
          { number: MARK, brand: "amex" },
        ],
      });
      const [first, second] = shown["cards"] as Input[];
      return { ...shown, to: "bob", note: MARK, cards: [first, { ...second, number: "3" }] };
    });
    // At a path that is not redacted, the mark is an ordinary string.
    const [first] = STORED.cards;
    expect(stored).toEqual({ ...STORED, to: "bob", note: MARK, cards: [first, { number: "3", brand: "amex" }] });
    const { entries } = await (await as("admin")).audit.list();
    expect(JSON.stringify(entries)).not.toContain("hush");
  });

  it.each(Object.keys(WAYS))("are rejected by %s if ambiguous or not stored", async (way) => {
    for (const [edit, path] of [
      [(shown: Input) => ({ ...shown, extra: { number: MARK } }), "input.extra.number"],
      [(shown: Input) => ({ ...shown, cards: (shown["cards"] as Input[]).toReversed() }), "input.cards.0"],
      [(shown: Input) => ({ ...shown, cards: (shown["cards"] as Input[]).slice(1) }), "input.cards.0"],
    ] as const) {
      const { hf, as } = await adminScene(store(), {}, REDACT);
      const client = await as("operator");
      expect(await errorOf(WAYS[way]?.(hf, client, edit) ?? Promise.resolve())).toMatchObject({
        status: 400,
        issues: [{ path, message: expect.stringContaining("the placeholder of a hidden value") }],
      });
      expect((await hf.list()).jobs.filter(({ input }) => JSON.stringify(input).includes(MARK))).toEqual([]);
    }
  });

  it.each(Object.keys(WAYS))("are restored by %s in payloads of maximum size", async (way) => {
    const { hf, as } = await adminScene(store(), {}, REDACT);
    const client = await as("operator");
    let left = 0;
    const stored = await WAYS[way]?.(hf, client, (shown) => {
      left = LIMITS.payloadBytes - JSON.stringify({ ...STORED, pad: "" }).length;
      return { ...shown, pad: "x".repeat(left) };
    });
    expect(stored).toEqual({ ...STORED, pad: "x".repeat(left) });
  });

  it("are rejected in new jobs and schedules", async () => {
    const { hf, as } = await adminScene(store(), {}, REDACT);
    const client = await as("operator");
    for (const call of [
      () => client.jobs.enqueue({ type: "pay", input: { password: MARK } }),
      () => client.schedules.create({ name: "pay", job: "pay", input: { password: MARK }, every: "1h" }),
      () => client.jobs.updateMany({ filter: { state: ["pending"] }, input: { password: MARK } }),
    ]) {
      expect(await errorOf(call())).toMatchObject({ status: 400, issues: [{ path: "input.password" }] });
    }
    expect((await hf.list()).jobs).toEqual([]);
    const { id } = await client.jobs.enqueue({ type: "pay", input: { note: MARK } });
    expect(await hf.get(id)).toMatchObject({ input: { note: MARK } });
  });
});
