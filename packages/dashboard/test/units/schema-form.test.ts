import { describe, expect, it } from "vitest";
import { z } from "zod";
import { fieldsOf, initialValue, textOf, valueOf, type SchemaField } from "../../src/ui/schema-fields.js";

function fields(schema: z.ZodType): readonly SchemaField[] {
  const found = fieldsOf(z.toJSONSchema(schema, { io: "input" }));
  if (found === null) throw new Error("the schema has no fields");
  return found;
}

function only(schema: z.ZodType): SchemaField {
  const [field] = fields(z.object({ field: schema }));
  if (field === undefined) throw new Error("no field");
  return field;
}

describe("the fields of a schema", () => {
  it("have kinds and say what they take", () => {
    const found = fields(
      z.object({
        to: z.email(),
        order: z.string().max(20),
        cents: z.int().min(1),
        ratio: z.number().gt(0).lt(1).optional(),
        currency: z.enum(["EUR", "USD", "GBP"]),
        attach: z.boolean().default(true),
        tags: z.array(z.string()).max(3),
        version: z.literal(2),
        note: z.string().nullable(),
        any: z.unknown(),
        either: z.union([z.string(), z.number()]),
        address: z.object({ zip: z.string().regex(/^\d{5}$/) }),
      }),
    );
    expect(found.map(({ name, kind, about }) => [name, kind, about])).toEqual([
      ["to", "string", "email"],
      ["order", "string", "string, up to 20 characters"],
      ["cents", "number", "integer, 1 or more"],
      ["ratio", "number", "number, more than 0, less than 1, optional"],
      ["currency", "enum", "one of 3"],
      ["attach", "boolean", "boolean, default true"],
      ["tags", "list", "list of strings"],
      ["version", "enum", "fixed"],
      ["note", "string", "string, may be null"],
      ["any", "json", "JSON"],
      ["either", "json", "JSON"],
      ["address", "object", ""],
    ]);
  });

  it("follow references, and stop in recursive ones", () => {
    interface Tree {
      name: string;
      next?: Tree | undefined;
    }
    const tree: z.ZodType<Tree> = z.object({
      name: z.string(),
      get next() {
        return tree.optional();
      },
    });
    let level: readonly SchemaField[] = fields(z.object({ tree }));
    let depth = 0;
    for (;;) {
      const inner = level.find(({ kind }) => kind === "object");
      if (inner?.kind !== "object") break;
      level = inner.fields;
      depth++;
    }
    expect(depth).toBeLessThan(10);
    expect(level.find(({ name }) => name === "next")?.kind).toBe("json");
    expect(fieldsOf({ $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/a" } } })).toBeNull();
  });

  it("are none for what a form cannot show", () => {
    expect(fieldsOf({ type: "string" })).toBeNull();
    expect(fieldsOf({})).toBeNull();
    expect(fieldsOf({ anyOf: [{ type: "object", properties: {} }], properties: {} })).toBeNull();
    expect(fieldsOf({ type: "object", properties: { a: true, b: false } })?.map(({ kind }) => kind)).toEqual([
      "json",
      "json",
    ]);
  });

  it("begin with the defaults and required objects", () => {
    const schema = z.object({
      a: z.string(),
      b: z.int().default(3),
      c: z.boolean(),
      d: z.object({ e: z.literal("x") }),
    });
    expect(initialValue(fields(schema))).toEqual({ b: 3, c: false, d: { e: "x" } });
  });
});

describe("the values of fields", () => {
  it("come from texts and return to the same texts", () => {
    const cases: [SchemaField, string, unknown][] = [
      [only(z.string().min(1)), "a b", "a b"],
      [only(z.string().optional()), "", undefined],
      [only(z.string()), "", ""],
      [only(z.number()), "1.5e3", 1500],
      [only(z.number()), "", undefined],
      [only(z.int()), "12", 12],
      [only(z.int()), "twelve", "twelve"],
      [only(z.enum(["a", "b"])), "1", "b"],
      [only(z.array(z.int())), "1\n2\n\nx", [1, 2, "x"]],
      [only(z.boolean().optional()), "true", true],
    ];
    for (const [field, text, value] of cases) expect(valueOf(field, text)).toEqual(value);
    expect(textOf(only(z.array(z.int())), [1, 2])).toBe("1\n2");
    expect(textOf(only(z.enum(["a", "b"])), "b")).toBe("1");
    expect(textOf(only(z.string()), null)).toBe("");
  });
});
