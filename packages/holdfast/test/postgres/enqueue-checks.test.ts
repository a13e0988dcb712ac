import { holdfast, job } from "holdfast";
import { admin } from "holdfast/admin";
import { describe, expect, it, onTestFinished } from "vitest";
import { LAST_INSTANT_MS, LIMITS } from "#src/defaults.js";
import { claim } from "#src/testing/exercise-store/builders.js";
import { forgetRolesOf, memberOf, type Login } from "./roles.js";
import { openScene, type Scene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

async function sceneOfWeb(): Promise<{ scene: Scene; web: Login }> {
  const scene = await openScene(server, { access: {} });
  forgetRolesOf(server, scene.schema);
  return { scene, web: await memberOf(server, scene, "enqueue") };
}

const nested = (levels: number): string => `(repeat('[', ${levels}) || repeat(']', ${levels}))`;

/** SQL that calls a batch function such as `add_jobs` for one job, with some other values, also `parent` and `settings`. */
function call(own: Readonly<Record<string, string>>, name = "add_jobs", more = ""): string {
  const values = {
    id: "gen_random_uuid()",
    type: "'t'",
    queue: "'default'",
    priority: "0",
    user: "NULL",
    input: "'1'",
    bytes: "1",
    maxAttempts: "3",
    runAt: "NULL",
    delayMs: "0",
    expiresAt: "NULL",
    tags: "NULL",
    schedule: "NULL",
    slot: "NULL",
    key: "NULL",
    scope: "NULL",
    periodMs: "0",
    trace: "NULL",
    ...own,
  };
  const types =
    "uuid text text smallint text text integer integer bigint bigint bigint text text bigint text text bigint text text text";
  const arrays = Object.values(values).map((value, at) => `ARRAY[${value}]::${types.split(" ")[at] ?? ""}[]`);
  return `SELECT * FROM $s.${name}(${arrays.join(", ")}, 1000${more})`;
}

describe("a login with the role enqueue", () => {
  it.each([
    "'t', run_at => '290000-01-01'",
    "'t', expires_at => '290000-01-01'",
    "'t', queue => '*'",
    `'t', ${nested(LIMITS.payloadDepth + 1)}::json`,
  ])("cannot enqueue an invalid job in SQL: %s", async (args) => {
    const { web } = await sceneOfWeb();
    await expect(web.sql(`SELECT $s.enqueue(${args})`)).rejects.toMatchObject({ code: "22023" });
  });

  it("cannot enqueue an invalid batch", async () => {
    const { scene, web } = await sceneOfWeb();
    const refused: Record<string, string>[] = [
      { type: "''" },
      { type: `repeat('t', ${LIMITS.typeLength + 1})` },
      { queue: "chr(27) || '[2J'" },
      { queue: "'*'" },
      { user: "chr(10)" },
      { input: "NULL" },
      { input: String.raw`'"\u0000"'` },
      { input: nested(LIMITS.payloadDepth + 1) },
      { maxAttempts: "1001" },
      { runAt: "9000000000000000" },
      { runAt: "8640000000000000", delayMs: "1" },
      { delayMs: "-1" },
      { expiresAt: "9000000000000000" },
      { tags: `'["a", ""]'` },
      { tags: `(SELECT json_agg(n)::text FROM generate_series(0, ${LIMITS.tags}) AS n)` },
      { schedule: "'nightly'", slot: "1" },
      { slot: "1" },
      { key: "chr(31) || 'schedule:nightly'", scope: "'live'" },
      { key: "'k'", scope: "'other'" },
      { trace: `repeat('x', ${LIMITS.traceBytes + 1})` },
    ];
    const settings = [
      "1",
      "[]",
      '{"other":1}',
      '{"timeoutMs":"1"}',
      '{"keepMs":3}',
      '{"keepMs":{"failed":1}}',
      '{"keepMs":{"dead":-1}}',
    ];
    for (const each of settings) refused.push({ parent: "NULL", settings: `'${each}'` });
    refused.push({ parent: "NULL", settings: `'{"timeoutMs":' || repeat('1', 1001) || '}'` });
    const functions = ["add_jobs", "add_keyed_jobs", "replace_job"] as const;
    for (const own of refused) {
      for (const name of functions) {
        const text = call(own, name, name === "replace_job" ? ", gen_random_uuid()" : "");
        await expect(web.sql(text), `${name} ${JSON.stringify(own)}`).rejects.toMatchObject({ code: "22023" });
      }
    }
    expect(await scene.sql("SELECT 1 FROM $s.live")).toEqual([]);
  });

  it("can enqueue jobs at the limits", async () => {
    const { scene, web } = await sceneOfWeb();
    await web.sql(`SELECT $s.enqueue('t', ${nested(LIMITS.payloadDepth)}::json, expires_at => '275760-09-13Z')`);
    const text = String.raw`'"${"[{".repeat(300)}\\u0000 \" ["'`;
    await web.sql(call({ input: text, trace: `repeat('x', ${LIMITS.traceBytes})`, delayMs: `${LIMITS.durationMs}` }));
    await web.sql(
      call(
        { key: "'u' || chr(31) || 'k' || chr(30) || '2026-01'", scope: "'period'", periodMs: "1" },
        "add_keyed_jobs",
      ),
    );
    await web.sql(
      call({ parent: "gen_random_uuid()::text", settings: `'{"timeoutMs":0,"keepMs":{"completed":0,"dead":1000}}'` }),
    );
    await web.sql(call({ parent: "NULL", settings: "'{}'" }));
    expect(await scene.sql("SELECT 1 FROM $s.live")).toHaveLength(5);
    expect(await claim(scene.store)).toHaveLength(4);
  });
});

describe("invalid rows in the tables", () => {
  it("do not break lists and claims", async () => {
    const scene = await openScene(server);
    const type = job({ type: "t", run: () => null });
    const hf = await holdfast({ store: scene.address, jobs: [type], logger: false });
    onTestFinished(() => hf.close());
    const { id } = await hf.enqueue(type, undefined, { delay: "1h" });
    await scene.sql("UPDATE $s.live SET run_at = 9e15, due_at = 9e15, expires_at = 9e15, slot = -9e15, schedule = 's'");
    await scene.sql(`UPDATE $s.live SET input = ${nested(5_000)}::json`);
    const api = admin(hf, { auth: () => ({ name: "me", role: "admin", user: null }) });
    const latest = new Date(LAST_INSTANT_MS);
    for (const path of ["jobs", `jobs/${id}`]) {
      const { status } = await api.fetch(new Request(`http://localhost/api/admin/${path}`));
      expect({ path, status }).toEqual({ path, status: 200 });
    }
    expect(await hf.get(id)).toMatchObject({
      runAt: latest,
      expiresAt: latest,
      schedule: { slot: new Date(-LAST_INSTANT_MS) },
      input: "(not shown: nested deeper than 200 levels)",
    });
    expect((await hf.list()).jobs).toMatchObject([{ runAt: latest }]);
    await api.close();
  });
});
