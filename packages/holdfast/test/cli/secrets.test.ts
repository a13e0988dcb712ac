import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { emptyWorkspace, SLOW } from "./workspace.js";
import { holdfastCommand } from "./scene.js";

const ADDRESS =
  "postgres://ada:hunter2@127.0.0.1:1/shop?options=-c%20app.key%3Dhunter2&sslpassword=hunter2&schema=jobs";
const COMMANDS = [
  ["config", "list"],
  ["stats", "--verbose"],
];

it("no command prints a secret of the store address", SLOW, async () => {
  const { cwd } = emptyWorkspace((folder) => `sqlite:${join(folder, "jobs.db")}`);
  const shown = async (store: string, args: readonly string[], env: Record<string, string> = {}): Promise<void> => {
    writeFileSync(join(cwd, "holdfast.toml"), `store = ${JSON.stringify(store)}\n`);
    const { stdout, stderr } = await holdfastCommand(args, { cwd, env });
    const out = expect.not.stringContaining("hunter2") as string;
    expect({ store, args, out: `${stdout}${stderr}` }).toEqual({ store, args, out });
  };
  for (const args of [
    ...COMMANDS,
    ["config", "list", "--json"],
    ["config", "set", "jobs.grace_s", "9"],
    ["config", "set", "store", ADDRESS],
    ["stats", "--json", "--verbose"],
    ["doctor"],
  ]) {
    await shown(ADDRESS, args);
  }
  // HOLDFAST_URL is ignored here, with a warning that names the store.
  const env = { HOLDFAST_LOG_FORMAT: "json", HOLDFAST_URL: "http://127.0.0.1:1" };
  for (const args of [["worker", "jobs.ts"], ["serve"]]) await shown(ADDRESS, args, env);
  for (const store of [
    "postgres://127.0.0.1:1/shop?schemo=hunter2",
    "dynamodb://ada:hunter2@jobs?region=eu-central-1",
    "dynamodb://jobs?endpoint=ftp://ada:hunter2@127.0.0.1:1",
    "dynamodb://jobs?secretAccessKey=hunter2",
    "mysql://127.0.0.1/shop?options=hunter2",
    "host=127.0.0.1 options='-c hunter2'",
  ]) {
    for (const args of [...COMMANDS, ["config", "set", "store", store]]) await shown(store, args);
  }
});

it("no command prints a secret of a server URL", SLOW, async () => {
  for (const url of ["http://127.0.0.1:1/?token=hunter2", "http://127.0.0.1:1#hunter2"]) {
    for (const more of [[], ["--json", "--verbose"]]) {
      const ended = await holdfastCommand(["stats", "--url", url, ...more]);
      expect({ url, code: ended.code }).toEqual({ url, code: 2 });
      expect(ended.stderr + ended.stdout).not.toContain("hunter2");
    }
  }
});
