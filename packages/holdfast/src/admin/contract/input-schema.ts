import { z } from "zod";
import type { InputCondition } from "../../engine/client/filter.js";

/** A condition on the input of jobs. */
export const inputCondition: z.ZodType<InputCondition> = z
  .strictObject({
    path: z
      .union([
        z.string().min(1).max(500),
        z
          .array(z.union([z.string().min(1).max(500), z.int().min(0)]))
          .min(1)
          .max(100),
      ])
      .optional()
      .describe(
        "Names and positions joined by dots, such as `items.0.sku`, or an array of them. Default: the whole input.",
      ),
    equals: z.unknown().optional().describe("The value there, compared as JSON."),
    text: z
      .string()
      .min(1)
      .max(1_000)
      .optional()
      .describe("A part of the value there, or of a key or value below it. Case is ignored."),
  })
  .refine(({ equals, text }) => (equals === undefined) !== (text === undefined), {
    error: "must have exactly one of equals and text",
  })
  .meta({
    description:
      "Jobs whose input matches. Exactly one of `equals` and `text`. Each call examines a limited number of jobs, and `cursor` continues.",
    oneOf: [{ required: ["equals"] }, { required: ["text"] }],
  }) as unknown as z.ZodType<InputCondition>;
