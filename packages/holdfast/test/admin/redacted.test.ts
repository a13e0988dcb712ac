import type { AdminClient, AdminError } from "holdfast/admin";
import type { Holdfast } from "holdfast";
import { describe, expect, it } from "vitest";
import { LIMITS } from "#src/defaults.js";
import { adminScene, STORES } from "./scene.js";

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

/** The ways in which a payload as it is shown comes back: what is stored then. */
const WAYS: Record<string, (hf: Holdfast, client: AdminClient, edit: (shown: Input) => Input) => Promise<unknown>> = {
  "a job that is run again": async (hf, client, edit) => {
    const { id } = await hf.enqueueNamed("pay", STORED);
    const { input } = await client.jobs.get({ id });
    const again = await client.jobs.rerun({ id, input: edit(input as Input) });
    return (await hf.get(again.id))?.input;
  },
  "a schedule that is changed": async (hf, client, edit) => {
    await hf.schedules.create("pay", { job: "pay", input: STORED, every: "1h" });
    const { input } = await client.schedules.get({ name: "pay" });
    await client.schedules.update({ name: "pay", input: edit(input as Input) });
    return (await hf.schedules.get("pay"))?.input;
  },
};

async function refusal(call: Promise<unknown>): Promise<AdminError> {
  return call.then(
    () => expect.fail("it was not refused"),
    (error: unknown) => error as AdminError,
  );
}

describe.each(STORES)("what is shown redacted on %s", (_name, store) => {
  it.each(Object.keys(WAYS))("of %s is stored whole when it is sent back", async (way) => {
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
    // Where nothing is redacted the mark is a text like any other.
    const [first] = STORED.cards;
    expect(stored).toEqual({ ...STORED, to: "bob", note: MARK, cards: [first, { number: "3", brand: "amex" }] });
    const { entries } = await (await as("admin")).audit.list();
    expect(JSON.stringify(entries)).not.toContain("hush");
  });

  it.each(Object.keys(WAYS))("of %s is refused where nothing is stored, or it cannot be told what", async (way) => {
    for (const [edit, path] of [
      [(shown: Input) => ({ ...shown, extra: { number: MARK } }), "input.extra.number"],
      [(shown: Input) => ({ ...shown, cards: (shown["cards"] as Input[]).toReversed() }), "input.cards.0"],
      [(shown: Input) => ({ ...shown, cards: (shown["cards"] as Input[]).slice(1) }), "input.cards.0"],
    ] as const) {
      const { hf, as } = await adminScene(store(), {}, REDACT);
      const client = await as("operator");
      expect(await refusal(WAYS[way]?.(hf, client, edit) ?? Promise.resolve())).toMatchObject({
        status: 400,
        issues: [{ path, message: expect.stringContaining("the placeholder of a hidden value") }],
      });
      expect((await hf.list()).jobs.filter(({ input }) => JSON.stringify(input).includes(MARK))).toEqual([]);
    }
  });

  it.each(Object.keys(WAYS))("of %s is not stored as a mark, however near to the limit the payload is", async (way) => {
    const { hf, as } = await adminScene(store(), {}, REDACT);
    const client = await as("operator");
    let left = 0;
    const stored = await WAYS[way]?.(hf, client, (shown) => {
      left = LIMITS.payloadBytes - JSON.stringify({ ...STORED, pad: "" }).length;
      return { ...shown, pad: "x".repeat(left) };
    });
    expect(stored).toEqual({ ...STORED, pad: "x".repeat(left) });
  });

  it("stands for nothing in a new job or a new schedule, and is refused there", async () => {
    const { hf, as } = await adminScene(store(), {}, REDACT);
    const client = await as("operator");
    for (const call of [
      client.jobs.enqueue({ type: "pay", input: { password: MARK } }),
      client.schedules.create({ name: "pay", job: "pay", input: { password: MARK }, every: "1h" }),
    ]) {
      expect(await refusal(call)).toMatchObject({ status: 400, issues: [{ path: "input.password" }] });
    }
    expect((await hf.list()).jobs).toEqual([]);
    const { id } = await client.jobs.enqueue({ type: "pay", input: { note: MARK } });
    expect(await hf.get(id)).toMatchObject({ input: { note: MARK } });
  });
});
