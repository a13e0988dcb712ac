import { describe, expect, it } from "vitest";
import { losslessText } from "#src/admin/http/raw-json.js";
import { engineOf } from "#src/engine/client/holdfast.js";
import { newJob } from "#src/testing/exercise-store/builders.js";
import { newSchedule } from "#src/testing/exercise-store/schedule-builders.js";
import { adminScene, adminStores } from "./scene.js";

const BIG = '{"order": 12345678901234567890, "price":0.1000000000000000055, "of":"a \\"b\\" {"}';

const STORES = adminStores();

describe.each(STORES)("numbers of a job on %s", (_name, store) => {
  it("keep all digits", async () => {
    const { hf, send, token, as } = await adminScene(store());
    const job = newJob({ type: "mail", input: BIG, user: "ada" });
    await engineOf(hf).store.insert([job]);
    for (const sent of [await token("viewer"), await token("user", "ada")]) {
      const text = await (await send(`/api/admin/jobs/${job.id}`, { token: sent })).text();
      expect(text).toContain(`"input":${BIG}`);
      expect(JSON.parse(text)).toMatchObject({ id: job.id, input: { of: 'a "b" {' }, output: null });
    }
    const viewer = await as("viewer");
    expect(await viewer.jobs.get({ id: job.id })).toMatchObject({ input: JSON.parse(BIG) as unknown });
  });

  it("are redacted first", async () => {
    const { hf, send, token } = await adminScene(store(), {}, { redact: ["input.card.number"] });
    const twice = '{"n":12345678901234567890,"card":{"number":4242},"card":{}}';
    const once = '{"n":12345678901234567890,"card":{"number":4242}}';
    const proto = '{"n":12345678901234567890,"__proto__":{"number":4242}}';
    const jobs = [twice, once, proto].map((input) => newJob({ type: "mail", input }));
    await engineOf(hf).store.insert(jobs);
    for (const { id } of jobs) {
      const text = await (await send(`/api/admin/jobs/${id}`, { token: await token("admin") })).text();
      expect(text).not.toContain("4242");
      expect(JSON.parse(text)).toMatchObject({ id, input: { n: 12_345_678_901_234_567_000 } });
    }
  });
});

describe.each(STORES)("numbers of a schedule on %s", (_name, store) => {
  it("keep all digits, unless a part is redacted", async () => {
    const { hf, send, token } = await adminScene(store(), {}, { redact: ["input.card"] });
    const secret = BIG.replace("{", '{"card":4242,');
    for (const [name, input] of [
      ["plain", BIG],
      ["secret", secret],
    ] as const)
      await engineOf(hf).store.putSchedule(newSchedule({ name, input }), null);
    const get = async (name: string): Promise<string> =>
      (await send(`/api/admin/schedules/${name}`, { token: await token("viewer") })).text();
    const text = await get("plain");
    expect(text).toContain(`"input":${BIG}`);
    expect(JSON.parse(text)).toMatchObject({ name: "plain", input: { of: 'a "b" {' }, slots: [] });
    expect(await get("secret")).not.toContain("4242");
  });
});

describe("the text of a payload", () => {
  it.each([
    ['{"a":12345678901234567890}', true],
    ["[1e400]", true],
    ["0.1000000000000000055", true],
    ['{"a":1.0,"b":1e2,"c":-0,"d":0.10,"e":1E+2,"f":120}', false],
    ['{"a": 1}', false],
    ['{"a":"12345678901234567890"}', false],
    ['{"a":12345678901234567890,"a":1}', false],
    ['[{"a":12345678901234567890},{"a":1}]', true],
    ['{"a":12345678901234567890,"\\u0061":1}', false],
    ['{"a":{"a":12345678901234567890}}', true],
    ['{"a\\"":12345678901234567890,"b":["a\\"",":"]}', true],
  ])("is sent if its value has lost digits: %s", (text, isSent) => {
    expect(losslessText(text, JSON.parse(text))).toBe(isSent ? text : null);
  });

  it("is compared in time, however long its numbers are", () => {
    const text = `{"a":1${"0".repeat(250_000)}1}`;
    expect(losslessText(text, JSON.parse(text))).toBe(text);
    const equal = `{"a":1${"0".repeat(200)}.${"0".repeat(250_000)}}`;
    expect(losslessText(equal, JSON.parse(equal))).toBeNull();
  });
});
