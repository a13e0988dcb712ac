import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { holdfast, job } from "holdfast";
import { describe, expect, it, onTestFinished } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { MAIN, plainEnv } from "./scene.js";

const never = job({ type: "never", run: () => {} });

interface Line {
  id: string;
  to: string;
  cursor: string;
}

describe("jobs follow --json", () => {
  it("has a cursor on each line that misses nothing", async () => {
    const folder = await mkdtemp(join(tmpdir(), "holdfast-follow-"));
    const store = `sqlite:${join(folder, "jobs.db")}`;
    const hf = await holdfast({ store, jobs: [never], logger: false });
    const child = spawn(process.execPath, [MAIN, "jobs", "follow", "--json", "--store", store], {
      cwd: folder,
      env: plainEnv(),
    });
    onTestFinished(async () => {
      child.kill("SIGKILL");
      await hf.close();
      await rm(folder, { recursive: true });
    });
    let shown = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (shown += text));
    const lines = (): Line[] => (shown.match(/.+(?=\n)/g) ?? []).map((line) => JSON.parse(line) as Line);
    // Nothing is recorded until the command has begun to follow.
    await until("the first line", async () => {
      if (lines().length === 0) await hf.enqueue(never);
      return lines().length > 0 || undefined;
    });
    // In one transaction, so that they are read together.
    await hf.enqueueMany(
      never,
      Array.from({ length: 20 }, () => ({})),
    );
    const { id: last } = await hf.enqueue(never);
    await until("all lines", () => lines().some(({ id }) => id === last) || undefined);
    const ids = lines().map(({ id }) => id);
    for (const { id, cursor } of lines()) {
      const after = ids.slice(ids.indexOf(id) + 1);
      const seen = new Set<string>();
      const followed = hf.follow({ cursor });
      while (after.length > 0 && !seen.has(last)) {
        const { value } = await followed.next();
        if (value !== undefined) seen.add(value.id);
      }
      await followed.return();
      expect(after.filter((each) => !seen.has(each))).toEqual([]);
    }
  });
});
