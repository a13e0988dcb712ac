import * as v from "valibot";
import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { checked } from "./results.js";
import { adminScene, adminStores, never } from "./scene.js";

const [SQLITE] = adminStores();
const store = SQLITE?.[1] ?? ((): string => "");

const order = job({
  type: "shop/order",
  queue: "shop",
  priority: 3,
  retry: { maxAttempts: 7 },
  timeout: "5m",
  tags: ["a"],
  input: z
    .object({
      to: z.string().default("ada"),
      card: z.object({ number: z.string().default("4242"), brand: z.enum(["visa", "amex"]).default("visa") }),
      lines: z.array(z.object({ sku: z.string(), secret: z.string().default("s3cret") })),
    })
    .describe("An order of the shop."),
  run: () => {},
});
const dated = job({ type: "dated", input: z.object({ at: z.date() }), run: () => {} });
const other = job({ type: "other", input: v.object({ to: v.string() }), run: () => {} });
const broken = {
  ...job({ type: "broken", input: z.string(), run: () => {} }),
  schema: {
    "~standard": {
      version: 1,
      vendor: "mine",
      validate: (value: unknown) => ({ value }),
      jsonSchema: {
        input: () => {
          const cyclic: Record<string, unknown> = {};
          return (cyclic["self"] = cyclic);
        },
      },
    },
  },
} as const;

describe("a job type in the admin API", () => {
  it("has its defaults and the JSON Schema of its input", async () => {
    const { as } = await adminScene(store(), {}, { jobs: [order] });
    const client = await as("viewer");
    const result = checked("types.get", await client.types.get({ type: "shop/order" }));
    expect(result).toMatchObject({
      type: "shop/order",
      known: true,
      defaults: { queue: "shop", priority: 3, maxAttempts: 7, timeoutMs: 300_000, tags: ["a"] },
      description: "An order of the shop.",
      takesInput: true,
      input: {
        $schema: "https://json-schema.org/draft/2020-12/schema",
        type: "object",
        // What a caller gives: a field with a default is not required.
        required: ["card", "lines"],
        properties: { to: { type: "string", default: "ada" }, card: { properties: { number: { default: "4242" } } } },
      },
    });
  });

  it("shows no value that the redaction hides", async () => {
    const redact = ["input.card.number", "input.lines.*.secret"];
    const { as } = await adminScene(store(), {}, { jobs: [order], redact });
    const { input } = await (await as("viewer")).types.get({ type: "shop/order" });
    expect(JSON.stringify(input)).not.toMatch(/4242|s3cret/);
    expect(input).toMatchObject({
      properties: {
        to: { default: "ada" },
        card: { properties: { number: { type: "string" }, brand: { default: "visa", enum: ["visa", "amex"] } } },
      },
    });
    const all = await adminScene(store(), {}, { jobs: [order], redact: ["input"] });
    const shown = await (await all.as("viewer")).types.get({ type: "shop/order" });
    expect(JSON.stringify(shown.input)).not.toMatch(/4242|s3cret|"ada"|visa/);
  });

  it("has no JSON Schema if its schema offers none", async () => {
    const { as } = await adminScene(store(), {}, { jobs: [dated, other, broken, never], retry: { maxAttempts: 9 } });
    const client = await as("viewer");
    for (const type of ["dated", "other", "broken"]) {
      expect(checked("types.get", await client.types.get({ type }))).toMatchObject({
        known: true,
        takesInput: true,
        input: null,
        description: null,
        defaults: { queue: "default", maxAttempts: 9 },
      });
    }
    expect(await client.types.get({ type: "never" })).toMatchObject({ known: true, takesInput: false, input: null });
    expect(checked("types.get", await client.types.get({ type: "elsewhere" }))).toEqual({
      type: "elsewhere",
      known: false,
      defaults: null,
      description: null,
      takesInput: null,
      input: null,
    });
  });
});
