import { AssertionError } from "node:assert";
import { InvalidOptionError, job } from "holdfast";
import { expectEnqueued, expectNotEnqueued, fakeClock } from "holdfast/testing";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { cleanup, errorOf, open, START } from "./scene.js";

const mail = job({
  type: "mail",
  input: z.object({ to: z.string(), subject: z.string().default(""), at: z.coerce.date().optional() }),
  run: () => {},
});

describe("fakeClock", () => {
  it("stands still until it is advanced", async () => {
    const clock = fakeClock(new Date(START));
    let fired = false;
    clock.after(1, () => (fired = true));
    await clock.settle();
    expect([clock.now(), clock.monotonic(), fired]).toEqual([START, 0, false]);
  });

  it("starts at the beginning of 2026 by default", () => {
    expect(fakeClock().now()).toBe(Date.UTC(2026, 0, 1));
    expect(fakeClock(1_000).now()).toBe(1_000);
  });

  it("fires timers by time, then in the order they were set", async () => {
    const clock = fakeClock(0);
    const fired: string[] = [];
    const note = (name: string) => (): void => void fired.push(`${name}@${clock.now()}`);
    clock.after(30, note("c"));
    clock.after(10, note("a"));
    clock.after(30, note("d"));
    clock.after(20, note("b"));
    clock.after(41, note("late"));
    await clock.advance(40);
    expect(fired).toEqual(["a@10", "b@20", "c@30", "d@30"]);
    expect(clock.now()).toBe(40);
    await clock.advance("1ms");
    expect(fired.at(-1)).toBe("late@41");
  });

  it("fires timers that were set during the advance", async () => {
    const clock = fakeClock(0);
    const ticks: number[] = [];
    const tick = (): void => {
      ticks.push(clock.now());
      clock.after(10, tick);
    };
    clock.after(10, tick);
    await clock.advance(35);
    expect(ticks).toEqual([10, 20, 30]);
  });

  it("settles promises of a timer before the next one fires", async () => {
    const clock = fakeClock(0);
    const order: string[] = [];
    clock.after(1, () => void Promise.resolve().then(() => order.push("promise")));
    clock.after(1, () => order.push("second timer"));
    await clock.advance(1);
    expect(order).toEqual(["promise", "second timer"]);
  });

  it("does not fire a cancelled timer", async () => {
    const clock = fakeClock(0);
    const fired: string[] = [];
    clock.after(5, () => fired.push("no")).cancel();
    clock.after(10, () => {
      fired.push("yes");
      other.cancel();
    });
    const other = clock.after(10, () => fired.push("no"));
    await clock.advance(20);
    other.cancel();
    expect(fired).toEqual(["yes"]);
  });

  it("setWall changes only the wall clock", async () => {
    const clock = fakeClock(START);
    const fired: number[] = [];
    clock.after(100, () => fired.push(clock.now()));
    await clock.advance(50);
    clock.setWall(START - 1_000_000);
    expect([clock.now(), clock.monotonic()]).toEqual([START - 1_000_000, 50]);
    await clock.advance(49);
    expect(fired).toEqual([]);
    await clock.advance(1);
    expect(fired).toEqual([START - 1_000_000 + 50]);
  });

  it("returns whole milliseconds, also inside timers", async () => {
    const clock = fakeClock(0);
    const seen: number[] = [];
    clock.after(100 / 3, () => seen.push(clock.now()));
    await clock.advance(100);
    expect(seen).toEqual([33]);
  });

  it("refuses to go back", async () => {
    expect(await errorOf(fakeClock().advance(-1))).toBeInstanceOf(InvalidOptionError);
  });

  it("controls engine and store", async () => {
    const { hf, clock } = await open({ jobs: [cleanup] });
    const { id } = await hf.enqueue(cleanup, {}, { delay: "1h" });
    hf.work();
    await clock.advance("59m");
    expect((await hf.get(id))?.state).toBe("pending");
    await clock.advance("1m");
    expect((await hf.get(id))?.state).toBe("completed");
  });
});

describe("expectEnqueued", () => {
  it("returns the newest job that matches", async () => {
    const { hf } = await open();
    await hf.enqueue(mail, { to: "ada", subject: "old" });
    const { id } = await hf.enqueue(mail, { to: "ada", subject: "new" });
    await hf.enqueue(mail, { to: "bob" });
    expect((await expectEnqueued(hf, mail, { to: "ada" })).id).toBe(id);
    expect((await expectEnqueued(hf, mail, { subject: "old" })).input.to).toBe("ada");
    expect((await expectEnqueued(hf, mail)).input.to).toBe("bob");
  });

  it("compares dates as stored", async () => {
    const { hf } = await open();
    const at = new Date(START);
    await hf.enqueue(mail, { to: "ada", at });
    await expectEnqueued(hf, mail, { at });
    await expectNotEnqueued(hf, mail, { at: new Date(0) });
  });

  it("applies the filter", async () => {
    const { hf } = await open();
    await hf.enqueue(mail, { to: "ada" }, { queue: "slow", user: "ada" });
    await expectEnqueued(hf, mail, { to: "ada" }, { queue: "slow", state: "pending" });
    await expectNotEnqueued(hf, mail, { to: "ada" }, { user: "bob" });
    await expectEnqueued(hf.forUser("ada"), mail);
  });

  it("names the expected job if the type has none", async () => {
    const { hf } = await open();
    await hf.enqueue(cleanup);
    const error = await errorOf(expectEnqueued(hf, mail, { to: "ada" }));
    expect(error).toBeInstanceOf(AssertionError);
    expect((error as Error).message).toBe('no mail job was enqueued with {"to":"ada"}; no job of that type exists');
    expect(((await errorOf(expectEnqueued(hf, mail))) as Error).message).toMatch(
      /^no mail job was enqueued with any input; /,
    );
  });

  it("prints other jobs of the type, at most five", async () => {
    const { hf } = await open();
    for (const to of ["a", "b", "c", "d", "e", "f", "g"]) await hf.enqueue(mail, { to });
    const error = (await errorOf(expectEnqueued(hf, mail, { to: "ada" }))) as AssertionError;
    expect(error.message).toBe(
      'no mail job was enqueued with {"to":"ada"}; found: {"to":"g"}, {"to":"f"}, {"to":"e"}, {"to":"d"}, {"to":"c"}',
    );
    expect(error.expected).toEqual({ to: "ada" });
  });

  it("checks every page", async () => {
    const { hf } = await open();
    await hf.enqueue(mail, { to: "first" });
    await hf.enqueueMany(
      mail,
      Array.from({ length: 700 }, () => ({ to: "later" })),
    );
    await expectEnqueued(hf, mail, { to: "first" });
  });
});

describe("expectNotEnqueued", () => {
  it("passes if there is no such job", async () => {
    const { hf } = await open();
    await hf.enqueue(mail, { to: "bob" });
    await expectNotEnqueued(hf, mail, { to: "ada" });
    await expectNotEnqueued(hf, cleanup);
  });

  it("names the unexpected job", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(mail, { to: "ada" });
    const error = await errorOf(expectNotEnqueued(hf, mail, { to: "ada" }));
    expect(error).toBeInstanceOf(AssertionError);
    expect((error as Error).message).toBe(`a mail job was enqueued with {"to":"ada"} (job ${id}, pending)`);
    expect(await errorOf(expectNotEnqueued(hf, mail))).toBeInstanceOf(AssertionError);
  });
});
