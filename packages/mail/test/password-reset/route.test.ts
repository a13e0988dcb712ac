import type { ResetUser } from "@holdfast/mail";
import { beforeEach, expect, it } from "vitest";
import { describeDatabases, type PackDatabase } from "../../../holdfast/test/pack/scene.js";
import { recordStatements } from "../statements.js";
import { ADA, requestFor, resetScene } from "./reset-scene.js";

const shownOf = async (response: Response) => ({
  status: response.status,
  headers: Object.fromEntries(response.headers),
  body: await response.text(),
});

describeDatabases((open) => {
  let given: PackDatabase;
  beforeEach(async () => (given = await open()));

  it("E-09 an unknown address gets the same response, and no job", async () => {
    const { hf, ask } = await resetScene(given);
    const known = await shownOf(await ask("ada@example.com"));
    const unknown = await shownOf(await ask("eve@example.com"));
    expect(known.status).toBe(202);
    expect(unknown).toEqual(known);
    expect((await hf.list()).jobs.map(({ input }) => input)).toMatchObject([{ data: { user: "user-1" } }]);
    expect(await given.query("SELECT address FROM password_reset_requests")).toHaveLength(2);
  });

  it("E-09 an unknown address runs the same statements", async () => {
    const { db, take } = recordStatements(given);
    const { hf, ask, users, reset, inbox } = await resetScene(given, { db });
    users.set("user-2", { id: "user-2", email: "bob@example.com" });
    // The first job of a type adds it to the lists of types and queues.
    await ask("bob@example.com");
    take();
    await ask("ada@example.com");
    const known = take();
    await ask("eve@example.com");
    const unknown = take();
    const end = (statement: string): string => statement.replace(/^(?:RELEASE|ROLLBACK TO) SAVEPOINT/, "end of");
    expect(known.length).toBeGreaterThan(5);
    expect(unknown.map(end)).toEqual(known.map(end));
    expect(known).toContain("RELEASE SAVEPOINT password_reset");
    expect(unknown).toContain("ROLLBACK TO SAVEPOINT password_reset");
    users.set("user-3", { id: "user-3", email: "grace@example.com" });
    for (const [email, recorded] of [
      ["grace@example.com", known],
      ["mallory@example.com", unknown],
    ] as const) {
      // Also while the mails of earlier requests wait, fail, or were sent.
      for (let time = 1; time <= 4; time++) {
        await reset.requestFor(hf, email);
        expect(take()).toEqual(recorded);
        if (time === 2) inbox.fail(451);
        if (time === 3) inbox.recover();
        if (time >= 2) await hf.drain();
        take();
      }
    }
  });

  it("E-09 an undefined user is an unknown address, and one without a string as its id is refused", async () => {
    const found: { user?: unknown } = {};
    const byEmail = (() => found.user) as () => ResetUser | null;
    const { hf, reset, job } = await resetScene(given, { users: { byEmail, byId: byEmail } });
    expect(await reset.requestFor(hf, "eve@example.com")).toEqual({ status: "accepted" });
    expect((await hf.list()).jobs).toEqual([]);
    found.user = { id: 5, email: "ada@example.com" };
    await expect(reset.requestFor(hf, "ada@example.com")).rejects.toThrow("id is not a non-empty string");
    expect((await hf.list()).jobs).toEqual([]);

    found.user = ADA;
    await reset.requestFor(hf, "ada@example.com");
    const [waiting] = (await hf.list()).jobs;
    found.user = undefined;
    await hf.drain();
    expect((await job(waiting?.id ?? "")).output).toEqual({ skipped: true, reason: "the user does not exist" });
  });

  it("E-09 five requests an hour and address are accepted", async () => {
    const { ask, clock, hf } = await resetScene(given);
    const statusOf = async (email: string) => (await ask(email)).status;
    for (const email of ["ada@example.com", "eve@example.com"]) {
      for (let minute = 0; minute < 5; minute++) {
        expect(await statusOf(email)).toBe(202);
        await clock.advance("1m");
      }
      const refused = await ask(email.toUpperCase());
      expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, String(55 * 60)]);
      expect(await refused.json()).toMatchObject({ error: { code: "TOO_MANY_REQUESTS" } });
    }
    // Of known addresses only.
    expect((await hf.stats()).states.pending).toBe(5);
    await clock.advance("50m");
    expect(await statusOf("ada@example.com")).toBe(202);
    expect(await statusOf("ada@example.com")).toBe(429);
    expect((await hf.list({ state: "pending" })).jobs[0]?.expiresAt).toEqual(new Date(clock.now() + 3_600_000));
  });

  it("E-09 the limit holds for requests at the same time", async () => {
    const { ask } = await resetScene(given, { limit: 3 });
    const responses = await Promise.all(Array.from({ length: 10 }, () => ask("ada@example.com")));
    const count = (wanted: number): number => responses.filter(({ status }) => status === wanted).length;
    expect([count(202), count(429)]).toEqual([3, 7]);
  });

  it("E-09 a form of your own gets the same result for every address", async () => {
    const { hf, reset, clock } = await resetScene(given, { limit: 2 });
    for (const email of ["ada@example.com", "eve@example.com"]) {
      expect(await reset.requestFor(hf, ` ${email} `)).toEqual({ status: "accepted" });
      await clock.advance("1m");
      expect(await reset.requestFor(hf, email)).toEqual({ status: "accepted" });
      expect(await reset.requestFor(hf, email)).toEqual({ status: "limited", retryAfterMs: 59 * 60_000 });
      // Those of the route count too.
      expect((await reset.request(hf)(requestFor(email))).status).toBe(429);
    }
    expect((await hf.list()).jobs.map(({ input }) => input)).toMatchObject([
      { data: { user: "user-1" } },
      { data: { user: "user-1" } },
    ]);
  });

  it("E-09 a wrong address is invalid, and nothing is stored", async () => {
    const { hf, reset } = await resetScene(given);
    for (const email of ["", "ada", "Ada <ada@example.com>", "ada@example.com\nBcc: eve@example.com", 7, null]) {
      expect(await reset.requestFor(hf, email as string)).toEqual({ status: "invalid" });
    }
    await expect(reset.requestFor(hf, "ada@example.com", { aborted: true } as never)).rejects.toMatchObject({
      code: "INVALID_OPTION",
      field: "aborted",
    });
    expect((await hf.stats()).states.pending).toBe(0);
    expect(await given.query("SELECT address FROM password_reset_requests")).toEqual([]);
  });

  it("E-09 a request ends with its signal", async () => {
    const byEmail = (): Promise<null> => new Promise(() => {});
    const { hf, reset } = await resetScene(given, { users: { byEmail, byId: () => null } });
    const leaving = new AbortController();
    const requested = reset.requestFor(hf, "ada@example.com", { signal: leaving.signal });
    leaving.abort(new Error("the client has left"));
    await expect(requested).rejects.toThrow("the client has left");
    expect(await given.query("SELECT address FROM password_reset_requests")).toEqual([]);
  });

  it("E-09 requests that no longer count are deleted", async () => {
    const { ask, clock } = await resetScene(given);
    for (let n = 0; n < 15; n++) await ask(`user${n}@example.com`);
    await clock.advance("1h");
    await ask("ada@example.com");
    expect(await given.query("SELECT address FROM password_reset_requests")).toHaveLength(6);
    await ask("bob@example.com");
    expect(await given.query("SELECT address FROM password_reset_requests")).toHaveLength(2);
  });

  it("E-09 a form is accepted", async () => {
    const { reset, hf } = await resetScene(given);
    const body = new URLSearchParams({ email: "ada@example.com" });
    const response = await reset.request(hf)(new Request("http://club.example/", { method: "POST", body }));
    expect(response.status).toBe(202);
    expect((await hf.stats()).states.pending).toBe(1);
  });

  it("E-09 a wrong request stores nothing", async () => {
    const { reset, hf } = await resetScene(given);
    const route = reset.request(hf);
    const post = async (body: string, type = "application/json"): Promise<number> => {
      const request = new Request("http://club.example/", { method: "POST", headers: { "content-type": type }, body });
      return (await route(request)).status;
    };
    expect((await route(new Request("http://club.example/"))).status).toBe(405);
    expect(await post("email=ada@example.com", "text/plain")).toBe(415);
    expect(await post("{")).toBe(400);
    expect(await post("null")).toBe(400);
    expect(await post('{"email":["ada@example.com"]}')).toBe(400);
    expect(await post('{"email":"ada"}')).toBe(400);
    expect(await post('{"email":"Ada <ada@example.com>"}')).toBe(400);
    expect(await post(JSON.stringify({ email: "ada@example.com", padding: "x".repeat(5_000) }))).toBe(413);
    expect((await hf.stats()).states.pending).toBe(0);
    expect(await given.query("SELECT address FROM password_reset_requests")).toEqual([]);
  });

  it("E-09 a body in small pieces is limited too", async () => {
    const { reset, hf } = await resetScene(given);
    const body = new ReadableStream({
      pull: (controller) => controller.enqueue(new TextEncoder().encode(" ".repeat(1_000))),
    });
    const request = new Request("http://club.example/", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
      duplex: "half",
    });
    expect((await reset.request(hf)(request)).status).toBe(413);
    expect((await reset.request(hf)(requestFor("ada@example.com"))).status).toBe(202);
  });
});
