import { JobNotFoundError, type Holdfast, type UserJobs } from "holdfast";
import { describe, expect, it } from "vitest";
import { cleanup, double, expectRefusal, jobOf, open, stateOf } from "./scene.js";

/** Ada has two jobs, bob one, and one has no user. */
async function twoUsers(): Promise<{
  hf: Holdfast;
  ada: UserJobs;
  bob: UserJobs;
  ids: { ada: string; ada2: string; bob: string; unowned: string };
}> {
  const { hf } = await open({ jobs: [double, cleanup] });
  const ada = hf.forUser("ada");
  const bob = hf.forUser("bob");
  const ids = {
    ada: (await ada.enqueue(double, { n: 1 }, { tags: ["t"] })).id,
    bob: (await bob.enqueue(double, { n: 2 }, { tags: ["t"] })).id,
    unowned: (await hf.enqueue(double, { n: 3 }, { tags: ["t"] })).id,
    ada2: (await hf.enqueue(cleanup, {}, { user: "ada" })).id,
  };
  return { hf, ada, bob, ids };
}

describe("A-06 a client bound to one user", () => {
  it("enqueues for that user", async () => {
    const { hf, ada, ids } = await twoUsers();
    expect(ada.user).toBe("ada");
    expect((await jobOf(hf, ids.ada)).user).toBe("ada");
    const { id } = await ada.enqueue(cleanup, {}, { user: "ada", priority: 3 } as object);
    expect(await jobOf(hf, id)).toMatchObject({ user: "ada", priority: 3 });
  });

  it("refuses calls that name another user", async () => {
    const { hf, ada, ids } = await twoUsers();
    for (const user of ["bob", "", null, 5]) {
      const other = { user } as object;
      for (const call of [
        () => ada.enqueue(cleanup, {}, other),
        () => ada.list(other),
        () => ada.cancel(other),
        () => ada.cancel({ ...other, state: "pending" }),
        () => ada.retry(other),
      ]) {
        await expect(call()).rejects.toMatchObject({ code: "INVALID_OPTION", field: "user" });
      }
      // Inside a transaction it throws, so that the transaction is not committed.
      expect(() => ada.enqueue(cleanup, {}, { ...other, tx: {} })).toThrow(
        expect.objectContaining({ code: "INVALID_OPTION", field: "user" }),
      );
    }
    for (const id of Object.values(ids)) expect(await stateOf(hf, id)).toBe("pending");
  });

  it("refuses an undefined target", async () => {
    const { hf, ada, ids } = await twoUsers();
    for (const target of [undefined, null, 5] as unknown as string[]) {
      await expect(ada.cancel(target)).rejects.toMatchObject({ code: "INVALID_OPTION" });
      await expect(ada.retry(target)).rejects.toMatchObject({ code: "INVALID_OPTION" });
    }
    expect(await stateOf(hf, ids.ada)).toBe("pending");
  });

  it("reads only its own jobs; others are not found", async () => {
    const { ada, bob, ids } = await twoUsers();
    expect(await ada.get(ids.ada)).toMatchObject({ id: ids.ada, user: "ada" });
    expect(await bob.get(ids.ada)).toBeNull();
    expect(await bob.get(ids.unowned)).toBeNull();
  });

  it("lists only its own jobs", async () => {
    const { ada, bob, ids } = await twoUsers();
    const idsOf = (page: { jobs: { id: string }[] }): string[] => page.jobs.map((found) => found.id);
    expect(idsOf(await ada.list())).toEqual([ids.ada2, ids.ada]);
    expect(idsOf(await bob.list({ tag: "t" }))).toEqual([ids.bob]);
    expect(idsOf(await bob.list({ user: undefined } as object))).toEqual([ids.bob]);
    const page = await ada.list({ limit: 1 });
    expect(idsOf(await ada.list({ cursor: page.cursor }))).toEqual([ids.ada]);
    await expect(bob.list({ cursor: page.cursor })).rejects.toThrow(/^cursor belongs to a list with other conditions/);
  });

  it("cancels only its own jobs, by id and by filter", async () => {
    const { hf, ada, bob, ids } = await twoUsers();
    expect(await bob.cancel(ids.ada)).toBe("missing");
    expect(await bob.cancel({ user: "bob" } as object)).toBe(1);
    expect(await stateOf(hf, ids.bob)).toBe("cancelled");
    for (const id of [ids.ada, ids.ada2, ids.unowned]) expect(await stateOf(hf, id)).toBe("pending");
    expect(await ada.cancel(ids.ada)).toBe("cancelled");
    expect(await ada.cancel({})).toBe(1);
    expect(await stateOf(hf, ids.unowned)).toBe("pending");
  });

  it("cannot cancel a running job of another user", async () => {
    const { hf, bob, ids } = await twoUsers();
    const [lease] = await hf.claim();
    expect(lease?.id).toBe(ids.ada);
    expect(await bob.cancel(ids.ada)).toBe("missing");
    expect(await lease?.start()).toEqual({ cancelRequested: false });
  });

  it("retries only its own jobs, by id and by filter", async () => {
    const { hf, ada, bob, ids } = await twoUsers();
    await hf.cancel({ state: "pending" });
    expect(await bob.retry(ids.ada)).toBe("missing");
    expect(await bob.retry({ user: "bob" } as object)).toBe(1);
    expect(await stateOf(hf, ids.bob)).toBe("pending");
    expect(await ada.retry(ids.ada)).toBe("retried");
    expect(await ada.retry({ state: "cancelled" })).toBe(1);
    expect(await stateOf(hf, ids.unowned)).toBe("cancelled");
  });

  it("waits for results of its own jobs only, by id or by type and id", async () => {
    const { hf, ada, bob, ids } = await twoUsers();
    await hf.drain();
    expect(await ada.result(ids.ada)).toEqual({ twice: 2 });
    expect((await bob.result(double, ids.bob)).twice).toBe(4);
    await expectRefusal(bob.result(ids.ada), { is: JobNotFoundError, code: "JOB_NOT_FOUND" });
    await expectRefusal(bob.result(double, ids.unowned), { is: JobNotFoundError, code: "JOB_NOT_FOUND" });
  });

  it("does not replace another user's job with the same key", async () => {
    const { hf, ada, bob } = await twoUsers();
    const { id } = await ada.enqueue(double, { n: 1 }, { unique: "k" });
    await bob.enqueue(double, { n: 2 }, { unique: { key: "k", onConflict: "replace" } });
    expect(await jobOf(hf, id)).toMatchObject({ user: "ada", input: { n: 1 } });
  });

  it("matches the whole user name", async () => {
    const { hf } = await twoUsers();
    for (const name of ["ad", "ada ", "ADA", "%", "a*"]) expect((await hf.forUser(name).list()).jobs).toEqual([]);
  });
});
