import { holdfast, job, type Holdfast, type RunContext } from "holdfast";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Desk } from "./completing.js";

type Context = RunContext<Record<string, never>>;

/** Cases of `keepIn` for every store that supports the caller's transactions. */
export function keepingCases(name: string, open: () => Promise<Desk>): void {
  async function scene(
    run: (context: Context, desk: Desk) => unknown,
    maxAttempts = 3,
  ): Promise<{ hf: Holdfast; desk: Desk; id: string }> {
    const desk = await open();
    const type = job({
      type: "keeping",
      retry: { maxAttempts, backoff: { base: 0, jitter: 0 } },
      run: (context) => run(context, desk),
    });
    const hf = await holdfast({ store: desk.store, jobs: [type], logger: false });
    onTestFinished(() => hf.close());
    const { id } = await hf.enqueue(type);
    hf.work();
    await hf.result(id, { timeout: "20s" }).catch(() => {});
    return { hf, desk, id };
  }

  describe(`${name}: a step that keeps its result in its own transaction`, () => {
    it("has its effect once, although the attempt fails after it", async () => {
      const { hf, desk, id } = await scene(async ({ step, job: { attempt } }, at) => {
        const booked = await step("book", async ({ keepIn }) => {
          await at.effect({ completeIn: keepIn }, { seat: 7 }, "commit");
          return { ignored: true };
        });
        if (attempt < 3) throw new Error("later");
        return booked;
      });
      expect(await hf.get(id)).toMatchObject({ state: "completed", attempt: 3, output: { seat: 7 } });
      expect(await desk.effects()).toBe(1);
      expect(await hf.steps(id)).toMatchObject([{ name: "book", state: "done", value: { seat: 7 } }]);
    });

    it("is done if its transaction committed, whatever its function throws then", async () => {
      const { hf, desk, id } = await scene(({ step }, at) =>
        step("book", async ({ keepIn }) => {
          await at.effect({ completeIn: keepIn }, 7, "commit");
          throw new Error("after the commit");
        }),
      );
      expect(await hf.get(id)).toMatchObject({ state: "completed", output: 7, attempt: 1 });
      expect(await desk.effects()).toBe(1);
    });

    it("runs again if its transaction was rolled back", async () => {
      const { hf, desk, id } = await scene(({ step, job: { attempt } }, at) =>
        step("book", async ({ keepIn }) => {
          await at.effect({ completeIn: keepIn }, attempt, attempt === 1 ? "roll back" : "commit");
        }),
      );
      expect(await hf.get(id)).toMatchObject({ state: "completed", output: 2, attempt: 2 });
      expect((await hf.get(id))?.attempts[0]?.error).toMatchObject({ code: "STEP_NOT_COMMITTED" });
      expect(await desk.effects()).toBe(1);
    });

    it("refuses a result that JSON cannot carry, and rolls back", async () => {
      const { hf, desk, id } = await scene(({ step }, at) =>
        step("book", ({ keepIn }) => at.effect({ completeIn: keepIn }, Number.NaN, "commit")),
      );
      expect(await hf.get(id)).toMatchObject({ state: "dead", error: { code: "INVALID_STEP_RESULT" } });
      expect(await desk.effects()).toBe(0);
    });
  });
}
