import type { AuditRecord } from "holdfast";
import { expect, it } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { emptyWorkspace, SLOW, type Workspace } from "./workspace.js";

/** The entries of the audit log, the oldest first. */
export async function entriesOf({ json }: Pick<Workspace, "json">): Promise<AuditRecord[]> {
  const { entries } = await json<{ entries: AuditRecord[] }>("audit");
  return entries.toReversed();
}

/** Each of these creates the schema of an empty store, and records that. */
export function createsSchema(
  address: (cwd: string) => string,
  { commands, services }: { commands: readonly string[][]; services: readonly string[][] },
): void {
  it.each(commands)("records that %s %s created the schema", SLOW, async (...words) => {
    const ws = emptyWorkspace(address);
    await ws.json(...words);
    await ws.json("queues", "pause", "mail");
    const [first, ...others] = await entriesOf(ws);
    expect(first).toMatchObject({ actor: expect.stringMatching(/^cli:/) as string, action: "store.migrate" });
    expect(first?.count).toBeGreaterThan(0);
    expect(others.map(({ action }) => action)).not.toContain("store.migrate");
  });

  it.each(services)("records that %s created the schema", SLOW, async (...words) => {
    const ws = emptyWorkspace(address);
    for (let start = 0; start < 2; start++) {
      const { child, stdout, ended } = ws.start(...words);
      await until("it to run", async () => stdout().includes("\n"), 60_000);
      child.kill("SIGTERM");
      await ended;
    }
    expect(await entriesOf(ws)).toMatchObject([
      { actor: expect.stringMatching(/^cli:/) as string, action: "store.migrate" },
    ]);
  });
}
