import { z } from "zod";
import { MAX_PASSWORD, MIN_PASSWORD } from "../passwords.js";

/** Fields of forms that several pages have. */
export const email: z.ZodType<string> = z
  .string()
  .trim()
  .max(200)
  .pipe(z.email("Enter an address such as ada@example.com."));
export const password: z.ZodType<string> = z
  .string()
  .min(MIN_PASSWORD, `A password needs at least ${MIN_PASSWORD} characters.`)
  .max(MAX_PASSWORD, `A password can have ${MAX_PASSWORD} characters.`);

/** The fields of a form, or the first problem as a sentence. */
export type ReadForm<Fields> = { fields: Fields; problem: null } | { fields: null; problem: string };

export function readForm<Fields>(schema: z.ZodType<Fields>, form: unknown): ReadForm<Fields> {
  const { data, error } = schema.safeParse(form);
  if (error === undefined) return { fields: data, problem: null };
  return { fields: null, problem: error.issues[0]?.message ?? "The form is incomplete." };
}
