import { createHash } from "node:crypto";
import { InvalidOptionError, TOKEN_ROLES, TooManyTokensError, type NewToken } from "holdfast";
import { LIMITS } from "holdfast/store";
import { describe, expect, it } from "vitest";
import { newTokenRecord } from "#src/testing/exercise-store/builders.js";
import { scene } from "./scene.js";

const DAY = 86_400_000;
const FORM = /^hf_[0-9a-f]{16}_[0-9A-Za-z]{43}$/;

/** The token with one character changed, counted from its end. */
function altered(token: string, fromEnd: number): string {
  const at = token.length - 1 - fromEnd;
  return `${token.slice(0, at)}${token[at] === "a" ? "b" : "a"}${token.slice(at + 1)}`;
}

describe("an API token", () => {
  it("is returned once, and verifies to its name and role", async () => {
    const { hf } = await scene();
    for (const role of ["viewer", "operator", "admin"] as const) {
      const { id, token } = await hf.tokens.create({ name: `for ${role}`, role });
      expect(token).toMatch(FORM);
      expect(token.startsWith(`hf_${id}_`)).toBe(true);
      expect(await hf.tokens.check(token)).toEqual({ id, name: `for ${role}`, role, user: null, expiresAt: null });
    }
  });

  it("of the role user has a user", async () => {
    const { hf } = await scene();
    const name = `naïve 漢字 \u{1f680}`;
    const { id, token } = await hf.tokens.create({ name, role: "user", user: "ada" });
    expect(await hf.tokens.check(token)).toEqual({ id, name, role: "user", user: "ada", expiresAt: null });
  });

  it("is stored as a hash", async () => {
    const { hf, store } = await scene();
    const { id, token } = await hf.tokens.create({ name: "deploy", role: "admin" });
    const secret = token.slice(-43);
    const [record] = await store.store.listTokens();
    expect(record?.hash).toBe(createHash("sha256").update(secret).digest("hex"));
    expect(JSON.stringify(store.calls("putToken"))).not.toContain(secret);
    const listed = await hf.tokens.list();
    expect(listed).toEqual([
      { id, name: "deploy", role: "admin", user: null, createdAt: new Date(record?.createdAt ?? 0), expiresAt: null },
    ]);
  });

  it("is unique, with 256 random bits", async () => {
    const { hf } = await scene();
    const made: NewToken[] = [];
    for (let n = 0; n < 300; n++) made.push(await hf.tokens.create({ name: "n", role: "viewer" }));
    for (const { token } of made) expect(token).toMatch(FORM);
    expect(new Set(made.map(({ token }) => token.slice(-43))).size).toBe(300);
    expect(new Set(made.map(({ id }) => id)).size).toBe(300);
    // All digits occur in this many random tokens.
    for (const place of [1, 20, 42]) {
      expect(new Set(made.map(({ token }) => token.slice(-43)[place])).size).toBeGreaterThan(40);
    }
  });

  it("is invalid if any part is changed", async () => {
    const { hf } = await scene();
    const one = await hf.tokens.create({ name: "one", role: "viewer" });
    const two = await hf.tokens.create({ name: "two", role: "admin" });
    for (const fromEnd of [0, 20, 42]) expect(await hf.tokens.check(altered(one.token, fromEnd))).toBeNull();
    expect(await hf.tokens.check(`hf_${two.id}_${one.token.slice(-43)}`)).toBeNull();
    expect(await hf.tokens.check(`hf_0000000000000000_${one.token.slice(-43)}`)).toBeNull();
    expect(await hf.tokens.check(one.token)).toMatchObject({ name: "one" });
  });

  it.each<[string, (token: string) => unknown]>([
    ["nothing", () => undefined],
    ["an empty text", () => ""],
    ["an object", () => ({ toString: () => "hf_" })],
    ["a list with a token in it", (token) => [token]],
    ["a token with its first letters missing", (token) => token.slice(3)],
    ["a token that is cut", (token) => token.slice(0, -1)],
    ["a token and a space", (token) => `${token} `],
    ["a token and a line end", (token) => `${token}\n`],
    ["two tokens", (token) => `${token}${token}`],
    ["a token in capitals", (token) => token.toUpperCase()],
    ["a secret with other letters", (token) => `${token.slice(0, -1)}é`],
    ["ten megabytes", () => `hf_${"a".repeat(10_000_000)}`],
  ])("that is %s is invalid, without a store call", async (_name, spoil) => {
    const { hf, store } = await scene();
    const { token } = await hf.tokens.create({ name: "n", role: "admin" });
    store.forget();
    expect(await hf.tokens.check(spoil(token) as string)).toBeNull();
    expect(store.total()).toBe(0);
  });

  it("needs one store call, valid or not", async () => {
    const { hf, store } = await scene();
    const { token } = await hf.tokens.create({ name: "n", role: "admin" });
    store.forget();
    await hf.tokens.check(token);
    await hf.tokens.check(altered(token, 3));
    await hf.tokens.check(altered(token, 50));
    expect([store.count("getToken"), store.total()]).toEqual([3, 3]);
  });

  it("with a damaged hash is invalid", async () => {
    const { hf, store } = await scene();
    const { id, token } = await hf.tokens.create({ name: "n", role: "admin" });
    const [record] = await store.store.listTokens();
    for (const hash of ["", "zz", "00", `${record?.hash}00`]) {
      await store.store.removeToken(id);
      await store.store.putToken(newTokenRecord({ ...record, hash }));
      expect(await hf.tokens.check(token)).toBeNull();
    }
  });

  it("is invalid in all processes once revoked", async () => {
    const { hf, another } = await scene();
    const other = await another();
    const { id, token } = await hf.tokens.create({ name: "n", role: "operator" });
    expect(await other.tokens.check(token)).not.toBeNull();
    expect(await hf.tokens.revoke(id)).toBe(true);
    expect(await other.tokens.check(token)).toBeNull();
    expect(await hf.tokens.revoke(id)).toBe(false);
    expect(await hf.tokens.list()).toEqual([]);
  });

  it("is valid until it expires, and still listed", async () => {
    const { hf, clock } = await scene();
    const { id, token } = await hf.tokens.create({ name: "n", role: "viewer", expiresIn: "30d" });
    await clock.advance(30 * DAY - 1);
    expect(await hf.tokens.check(token)).not.toBeNull();
    await clock.advance(1);
    expect(await hf.tokens.check(token)).toBeNull();
    expect(await hf.tokens.list()).toMatchObject([{ id, expiresAt: new Date(clock.now()) }]);
  });
});

describe("API tokens", () => {
  it("are listed oldest first", async () => {
    const { hf, clock } = await scene();
    for (const role of TOKEN_ROLES) {
      await hf.tokens.create({ name: role, role, ...(role === "user" && { user: "ada" }) });
      await clock.advance("1s");
    }
    expect((await hf.tokens.list()).map(({ name }) => name)).toEqual([...TOKEN_ROLES]);
  });

  it("are limited in number; expired ones are replaced", async () => {
    const { hf, clock, store } = await scene();
    const expiring = await hf.tokens.create({ name: "short", role: "viewer", expiresIn: "1h" });
    for (let n = 1; n < LIMITS.tokens; n++) await store.store.putToken(newTokenRecord());
    const refused = hf.tokens.create({ name: "one more", role: "viewer" });
    await expect(refused).rejects.toBeInstanceOf(TooManyTokensError);
    await expect(refused).rejects.toMatchObject({
      code: "TOO_MANY_TOKENS",
      message: expect.stringMatching(/^token limit reached \(1000\).*hf\.tokens\.revoke\(id\)/) as string,
    });
    await clock.advance("1h");
    const { token } = await hf.tokens.create({ name: "one more", role: "viewer" });
    expect(await hf.tokens.check(token)).toMatchObject({ name: "one more" });
    const listed = await hf.tokens.list();
    expect(listed).toHaveLength(LIMITS.tokens);
    expect(listed.map(({ id }) => id)).not.toContain(expiring.id);
  });

  it.each<[string, unknown, string, RegExp]>([
    ["no options", undefined, "a token", /is not an options object/],
    ["an unknown option", { name: "n", role: "viewer", scope: "all" }, "scope", /known: name, role, user, expiresIn/],
    ["no name", { role: "viewer" }, "name", /non-empty string/],
    ["a name with a line end", { name: "a\nb", role: "viewer" }, "name", /control characters/],
    ["a name that is too long", { name: "x".repeat(201), role: "viewer" }, "name", /the limit is 200/],
    ["no role", { name: "n" }, "role", /none of user, viewer, operator, admin/],
    ["an unknown role", { name: "n", role: "root" }, "role", /"root" is none of/],
    ["a role of every object", { name: "n", role: "constructor" }, "role", /none of/],
    ["the role user without a user", { name: "n", role: "user" }, "user", /non-empty string/],
    ["a user with another role", { name: "n", role: "admin", user: "ada" }, "user", /only allowed with the role user/],
    ["an expiry at once", { name: "n", role: "viewer", expiresIn: 0 }, "expiresIn", /longer than 0/],
    ["an expiry that is no duration", { name: "n", role: "viewer", expiresIn: "soon" }, "expiresIn", /not a duration/],
  ])("create refuses %s and names the option", async (_name, options, field, says) => {
    const { hf } = await scene();
    const refused = hf.tokens.create(options as never);
    await expect(refused).rejects.toBeInstanceOf(InvalidOptionError);
    await expect(refused).rejects.toMatchObject({ field, message: expect.stringMatching(says) as string });
    expect(await hf.tokens.list()).toEqual([]);
  });

  it("revoke refuses a whole token without printing it", async () => {
    const { hf } = await scene();
    const { token } = await hf.tokens.create({ name: "n", role: "viewer" });
    for (const id of [token, "", undefined, "7"]) {
      const refused = await hf.tokens.revoke(id as string).catch((error: unknown) => error as Error);
      expect(refused).toMatchObject({ code: "INVALID_OPTION", field: "id" });
      expect((refused as Error).message).not.toContain(token.slice(-43));
    }
    expect(await hf.tokens.check(token)).not.toBeNull();
  });

  it("cannot be used after close", async () => {
    const { hf } = await scene();
    const { id, token } = await hf.tokens.create({ name: "n", role: "viewer" });
    await hf.close();
    for (const call of [
      () => hf.tokens.create({ name: "n", role: "viewer" }),
      () => hf.tokens.check(token),
      () => hf.tokens.list(),
      () => hf.tokens.revoke(id),
    ]) {
      await expect(call()).rejects.toMatchObject({ code: "CLOSED" });
    }
  });
});
