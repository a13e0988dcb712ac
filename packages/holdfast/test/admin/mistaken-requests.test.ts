import { expect, it } from "vitest";
import { ended, errorOf } from "./results.js";
import { adminScene } from "./scene.js";

const HOUR = { delay: "1h" } as const;

it("the same mistake has the same code and wording", async () => {
  const { hf, as } = await adminScene("sqlite::memory:");
  const client = await as("operator");
  const { id } = await hf.enqueueNamed("order", { n: 1 }, HOUR);
  const invalid = { status: 400, code: "INVALID_REQUEST" };
  const uuid = ': "7" is not a UUID such as "018f4d2e-7b3a-7c11-8a55-0123456789ab"';
  for (const [call, message] of [
    [() => client.jobs.get({ id: "7" }), `id${uuid}`],
    [() => client.jobs.list({ id: ["7"] }), `id.0${uuid}`],
    [() => client.jobs.list({ parent: "7" }), `parent${uuid}`],
    [() => client.jobs.enqueue({ type: "order", id: "7" }), `id${uuid}`],
    [
      () => client.jobs.update({ id, expiresAt: "2020-01-01T00:00:00Z" }),
      "expiresAt: 2020-01-01T00:00:00.000Z is in the past",
    ],
    [() => client.jobs.list({ cursor: "abc" }), "cursor is not a cursor of an earlier page; start again without one"],
    [
      () => client.jobs.list({ input: { equals: 1, text: "1" } as never }),
      "input must have exactly one of equals and text",
    ],
    [() => client.jobs.count({ input: {} as never }), "input must have exactly one of equals and text"],
  ] as const)
    expect(await errorOf(call())).toMatchObject({ ...invalid, message });
});

it("a path may be an array, also in the audit log", async () => {
  const { hf, as } = await adminScene("sqlite::memory:", {}, { redact: ["input.card.number"] });
  const [client, admin] = [await as("operator"), await as("admin")];
  const { id } = await hf.enqueueNamed("order", { "a.b": [{ n: 1 }], card: { number: 4711 } }, HOUR);
  const { jobs } = await client.jobs.list({ input: { path: ["a.b", 0, "n"], equals: 1 } });
  expect(jobs.map((each) => each.id)).toEqual([id]);
  const filter = { input: { path: ["card", "number"], equals: 4711 } };
  expect(await ended(client, await client.jobs.promoteMany({ filter }))).toMatchObject({ changed: 0 });
  const { entries } = await admin.audit.list({ action: "jobs.promoteMany" });
  expect(JSON.stringify(entries)).not.toContain("4711");
});
