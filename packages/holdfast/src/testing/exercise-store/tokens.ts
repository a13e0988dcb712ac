import assert from "node:assert/strict";
import { LIMITS } from "../../defaults.js";
import { TOKEN_ROLES } from "../../access/roles.js";
import type { PutTokenResult, Store, TokenRecord } from "../../store.js";
import { newTokenRecord } from "./builders.js";
import { handlesOf, type DefineCase } from "./scene.js";

const ODD = `naïve Ω 漢字 \u{1f9d1}\u200d\u{1f680} it's "quoted" \\ $1 ? % _ -- #`;

export function tokenCases(test: DefineCase): void {
  test.live([], "the cursor key is the same on every handle", async (scene) => {
    const handles = await handlesOf(scene, 4);
    const keys = await Promise.all(handles.flatMap((store) => [store.cursorKey(), store.cursorKey()]));
    assert.equal(new Set([...keys, await scene.store.cursorKey()]).size, 1);
    assert.ok((keys[0] ?? "").length >= 32, "the key is shorter than 32 characters");
  });

  test("stores every field of a token, for every role", async ({ store }) => {
    const records = TOKEN_ROLES.map((role, nth) =>
      newTokenRecord({
        name: `${role} ${ODD}`,
        role,
        user: role === "user" ? ODD : null,
        createdAt: nth,
        expiresAt: nth,
      }),
    );
    const endless = newTokenRecord({ createdAt: 1e12, expiresAt: null });
    for (const record of [...records, endless]) {
      assert.equal(await store.putToken(record), "put");
      assert.deepEqual(await store.getToken(record.id), record);
    }
    assert.deepEqual(await store.listTokens(), [...records, endless]);
  });

  test("get returns null for an unknown token, remove false", async ({ store }) => {
    const { id } = newTokenRecord();
    assert.equal(await store.getToken(id), null);
    assert.equal(await store.removeToken(id), false);
    assert.deepEqual(await store.listTokens(), []);
  });

  test("does not overwrite a token with the same id", async ({ store }) => {
    const first = newTokenRecord({ name: "first" });
    await store.putToken(first);
    const second = newTokenRecord({ id: first.id, name: "second", role: "user", user: "ada", expiresAt: 1 });
    assert.equal(await store.putToken(second), "exists");
    assert.equal(await store.putToken(first), "exists");
    assert.deepEqual(await store.listTokens(), [first]);
  });

  test("a removed token is gone, its id is free", async ({ store }) => {
    const [one, two] = [newTokenRecord(), newTokenRecord({ createdAt: 1 })];
    await store.putToken(one);
    await store.putToken(two);
    assert.equal(await store.removeToken(one.id), true);
    assert.equal(await store.removeToken(one.id), false);
    assert.equal(await store.getToken(one.id), null);
    assert.deepEqual(await store.listTokens(), [two]);
    const again = { ...one, name: "again" };
    assert.equal(await store.putToken(again), "put");
    assert.deepEqual(await store.listTokens(), [two, again]);
  });

  test("lists tokens oldest first, then by id", async ({ store }) => {
    const records = ["b", "B", "a", "é", "0"].map((id) => newTokenRecord({ id, createdAt: 5 }));
    records.push(newTokenRecord({ createdAt: 4 }), newTokenRecord({ createdAt: 6 }));
    for (const record of records) await store.putToken(record);
    const expected = records.toSorted((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
    assert.deepEqual(await store.listTokens(), expected);
  });

  test("similar ids are different tokens", async ({ store }) => {
    const ids = ["abc", "ABC", "abc ", "ab_", "ab%", "ábc", "ábc".normalize("NFD")];
    for (const id of ids) assert.equal(await store.putToken(newTokenRecord({ id, name: id })), "put");
    for (const id of ids) assert.equal((await store.getToken(id))?.name, id);
    assert.equal(await store.getToken("Abc"), null);
    assert.equal(await store.removeToken("ab_"), true);
    assert.equal((await store.listTokens()).length, ids.length - 1);
  });

  test.live([], "one of many concurrent puts of an id succeeds", async (scene) => {
    const handles = await handlesOf(scene, 4);
    for (let round = 0; round < 5; round++) {
      const { id } = newTokenRecord();
      const rivals = handles.map((_, nth) => newTokenRecord({ id, name: `rival ${nth}` }));
      const results = await Promise.all(handles.map((handle, at) => handle.putToken(rivals[at] as TokenRecord)));
      assert.deepEqual(results.toSorted(), ["exists", "exists", "exists", "put"]);
      assert.deepEqual(await scene.store.getToken(id), rivals[results.indexOf("put")]);
    }
  });

  test.live([], "never stores more than the maximum number of tokens", async (scene) => {
    const handles = await handlesOf(scene, 4);
    const { store } = scene;
    const before = Array.from({ length: LIMITS.tokens - 3 }, () => newTokenRecord());
    for (let from = 0; from < before.length; from += 50) {
      for (const result of await putAll(store, before.slice(from, from + 50))) assert.equal(result, "put");
    }
    const rivals = Array.from({ length: 8 }, () => newTokenRecord());
    const results = await Promise.all(rivals.map((rival, at) => (handles[at % 4] as Store).putToken(rival)));
    assert.deepEqual(results.toSorted(), [...Array<string>(5).fill("full"), "put", "put", "put"]);
    assert.equal((await store.listTokens()).length, LIMITS.tokens);
    const [first] = before as [TokenRecord];
    assert.equal(await store.putToken(first), "exists", "an existing id is reported as such");
    assert.equal(await store.removeToken(first.id), true);
    assert.equal(await store.removeToken(first.id), false);
    assert.equal(await store.putToken(newTokenRecord()), "put", "a removed token frees capacity");
    assert.equal(await store.putToken(newTokenRecord()), "full");
  });
}

function putAll(store: Store, records: readonly TokenRecord[]): Promise<PutTokenResult[]> {
  return Promise.all(records.map((record) => store.putToken(record)));
}
