import { describe, expect, it } from "vitest";
import { z } from "zod";
import {
  fieldsOf,
  initialValue,
  problemOf,
  problemsOf,
  textOf,
  valueOf,
  type SchemaField,
} from "../src/ui/schema-fields.js";

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

  it("are checked as the schema does", () => {
    const schemas: [z.ZodType, unknown[]][] = [
      [z.email(), ["ada@example.com", "ada@example", "", 1]],
      [z.string().min(2).max(3), ["a", "ab", "abcd", "😀😀"]],
      [z.string().regex(/^o-\d+$/), ["o-1", "x"]],
      [z.uuid(), ["01a1f04f-0ca2-7000-813e-770671a7f5c4", "1"]],
      [z.url(), ["https://example.com", "example"]],
      [z.int().min(1).max(5), [0, 1, 5, 6, 1.5, "1", Number.MAX_SAFE_INTEGER + 2]],
      [z.number().gt(0).lt(1), [0, 0.5, 1]],
      [z.number().multipleOf(0.1), [0.3, 0.35]],
      [z.enum(["a", "b"]), ["a", "c"]],
      [z.boolean(), [true, "true"]],
      [z.array(z.string()).min(1).max(2), [[], ["a"], ["a", "b", "c"], "a"]],
      [z.array(z.int()), [[1], ["1"], [1.5]]],
      [z.string().nullable(), [null, "a"]],
      [z.object({ a: z.string() }), [{ a: "x" }, []]],
    ];
    for (const [schema, values] of schemas) {
      const field = only(schema);
      for (const value of values) {
        const expected = schema.safeParse(value).success;
        expect(problemOf(field, value) === null, `${field.about}: ${JSON.stringify(value)}`).toBe(expected);
      }
    }
  });

  it("are named in sentences", () => {
    expect(problemOf(only(z.int()), "1")).toBe('must be an integer, not the string "1"');
    expect(problemOf(only(z.string()), undefined)).toBe("is required");
    expect(problemOf(only(z.string().default("x")), undefined)).toBeNull();
  });

  it("have paths where objects are nested", () => {
    const found = fields(
      z.object({
        to: z.email(),
        address: z.object({ zip: z.string(), city: z.string() }),
        extra: z.object({ a: z.string() }).optional(),
      }),
    );
    expect(problemsOf(found, { to: "x", address: { zip: "1" } })).toEqual([
      { path: "to", message: "must be an email address" },
      { path: "address.city", message: "is required" },
    ]);
  });
});
