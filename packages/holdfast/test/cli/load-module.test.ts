import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CommandError } from "#src/cli/errors.js";
import { loadJobs as loadModule, type JobsModule } from "#src/cli/module/load-module.js";
import type * as own from "holdfast";
import { holdfast } from "holdfast";
import { describe, expect, it } from "vitest";
import { folder } from "../config/scene.js";
import { runNode } from "./scene.js";

const loadJobs = (given: string, cwd: string): Promise<JobsModule> => loadModule(given, { cwd, env: {} });

const PACKAGE = join(import.meta.dirname, "../..");
const REPOSITORY = join(PACKAGE, "../..");

/** A project with these files, and with this copy of Holdfast installed, another, or none. */
function project(files: Readonly<Record<string, string>>, installed: "this" | "another" | "none" = "this"): string {
  const cwd = folder({ "package.json": '{ "type": "module" }', ...files });
  mkdirSync(join(cwd, "node_modules"));
  for (const name of ["zod", "better-sqlite3"]) {
    symlinkSync(join(REPOSITORY, "node_modules", name), join(cwd, "node_modules", name));
  }
  if (installed === "this") symlinkSync(PACKAGE, join(cwd, "node_modules/holdfast"));
  if (installed === "another") {
    const other = join(cwd, "node_modules/holdfast");
    mkdirSync(other);
    writeFileSync(join(other, "package.json"), '{ "name": "holdfast", "type": "module", "exports": "./index.js" }');
    writeFileSync(
      join(other, "index.js"),
      "export class NotRetryable extends Error {}\nexport const job = (x) => x;\n",
    );
  }
  return cwd;
}

const TYPED = `
import { job, NotRetryable } from "holdfast";
import { openSqlite } from "holdfast/sqlite";
import { z } from "zod";
import { greeting } from "./greeting.js";
import { shout } from "@lib/shout";
import { Plain } from "./plain.js";
enum Tone { Loud = 1 }
if (Plain !== NotRetryable) throw new Error("there are two copies");
interface Person { name: string }
const input = z.object({ name: z.string() });
await Promise.resolve();
export const greet = job({
  type: "greet",
  input,
  run: ({ input }): string => shout(greeting(input as Person) + Tone.Loud),
});
export const refuse = job({ type: "refuse", run(): never { throw new NotRetryable("never"); } });
export const Known = NotRetryable;
export const folder: string = import.meta.dirname;
export { openSqlite };
export default [greet, refuse];
`;
const OTHER_FILES = {
  "src/plain.js": 'export { NotRetryable as Plain } from "holdfast";\n',
  "src/greeting.ts": "export const greeting = (person: { name: string }): string => `hello ${person.name}`;\n",
  "src/lib/shout.ts": "export const shout = (text: string): string => text.toUpperCase();\n",
  "tsconfig.json": '{ "compilerOptions": { "paths": { "@lib/*": ["./src/lib/*"] } } }',
};

// From the published files, which jobs modules import; tests import the compiled modules.
const { InvalidOptionError, NotRetryable } = (await import(import.meta.resolve("holdfast"))) as typeof own;

describe("a module in TypeScript", () => {
  for (const installed of ["this", "another", "none"] as const) {
    it(`uses the command's holdfast if ${installed} is installed`, async () => {
      const cwd = project({ "src/jobs.ts": TYPED, ...OTHER_FILES }, installed);
      const { jobs, path, setup } = await loadJobs("src/jobs.ts", cwd);
      expect(jobs.map(({ type }) => type)).toEqual(["greet", "refuse"]);
      expect(path).toBe(join(cwd, "src/jobs.ts"));
      expect(setup).toBeNull();

      const hf = await holdfast({ store: "sqlite::memory:", jobs, logger: false });
      const [greet, refuse] = jobs as [never, never];
      const greeted = await hf.enqueue(greet, { name: "ada" });
      const refused = await hf.enqueue(refuse);
      await hf.drain();
      expect((await hf.get(greeted.id))?.output).toBe("HELLO ADA1");
      // Recognised as NotRetryable by instanceof; else it would be retried.
      expect(await hf.get(refused.id)).toMatchObject({ state: "dead", attempt: 1 });
      await hf.close();
    });
  }

  it("shares classes with this process", async () => {
    const text =
      'import { job, NotRetryable } from "holdfast";\nexport const a = job({ type: "a", run: (): void => { throw new NotRetryable("x"); } });\n';
    const { jobs } = await loadJobs("jobs.mts", project({ "jobs.mts": text }, "none"));
    expect(() => jobs[0]?.run({} as never)).toThrow(NotRetryable);
  });
});

describe("a module in JavaScript", () => {
  const text =
    'import { job, NotRetryable } from "holdfast";\nexport const a = job({ type: "a", run() { throw new NotRetryable("x"); } });\n';
  for (const installed of ["this", "another", "none"] as const) {
    it(`uses the command's holdfast if ${installed} is installed`, async () => {
      for (const name of ["jobs.js", "jobs.mjs"]) {
        const { jobs } = await loadJobs(name, project({ [name]: text }, installed));
        expect(() => jobs[0]?.run({} as never)).toThrow(NotRetryable);
      }
    });
  }
});

describe("the exports of a jobs module", () => {
  const load = async (body: string): Promise<Awaited<ReturnType<typeof loadJobs>>> => {
    const head = 'import { job } from "holdfast";\nconst make = (type) => job({ type, run() {} });\n';
    return loadJobs("jobs.mjs", project({ "jobs.mjs": head + body }));
  };
  const typesOf = async (body: string): Promise<string[]> => (await load(body)).jobs.map(({ type }) => type);

  it("include jobs of any name, in arrays and objects", async () => {
    expect(await typesOf('export const a = make("a"), b = make("b"); export const other = 3, nothing = null;')).toEqual(
      ["a", "b"],
    );
    expect(await typesOf('export const all = [make("a"), make("b")];')).toEqual(["a", "b"]);
    expect(await typesOf('export const all = { a: make("a"), "b-c": make("b") };')).toEqual(["a", "b"]);
    expect(await typesOf('export default make("a");')).toEqual(["a"]);
    expect(await typesOf('export default { jobs: [make("a")] };')).toEqual(["a"]);
  });

  it("include a job once if exported twice", async () => {
    expect(await typesOf('export const a = make("a"); export const again = a; export default [a];')).toEqual(["a"]);
  });

  it("include setup, which may define schedules", async () => {
    const { setup, jobs } = await load(
      'export const a = make("a"); export const setup = (hf) => hf.schedule("s", { job: a, every: "1h" });',
    );
    const hf = await holdfast({ store: "sqlite::memory:", jobs, logger: false });
    await setup?.(hf);
    expect((await hf.schedules.list()).schedules.map(({ name }) => name)).toEqual(["s"]);
    await hf.close();
  });

  it("include reporter, telemetry, logger and teardown", async () => {
    const none = { setup: null, teardown: null, reporter: null, telemetry: null, logger: null };
    expect(await load('export const a = make("a"); export const reporter = undefined;')).toMatchObject(none);
    const found = await load(`export const a = make("a");
class Reporter { report() {} }
export const reporter = new Reporter();
export const telemetry = { enqueue() {}, run() {} };
export const logger = Object.assign(() => {}, { info() {}, warn() {}, error() {}, trace: null });
export const teardown = async () => {};`);
    expect(found).toMatchObject({
      reporter: { report: expect.any(Function) as unknown },
      telemetry: { enqueue: expect.any(Function) as unknown, run: expect.any(Function) as unknown },
      logger: expect.objectContaining({ info: expect.any(Function) as unknown }) as unknown,
      teardown: expect.any(Function) as unknown,
    });
    expect(found.jobs.map(({ type }) => type)).toEqual(["a"]);
  });

  it("may be jobs named setup, teardown or reporter", async () => {
    const body = `export const setup = make("s"), teardown = [make("t")], reporter = make("r");
export const telemetry = { enqueue: make("e"), run: make("n") }, logger = make("l");`;
    const { jobs, ...others } = await load(body);
    expect(jobs.map(({ type }) => type).toSorted()).toEqual(["e", "l", "n", "r", "s", "t"]);
    expect(others).toMatchObject({ setup: null, teardown: null, reporter: null, telemetry: null, logger: null });
  });

  const refusal = async (loading: Promise<unknown>): Promise<CommandError> => {
    const error: unknown = await loading.then(
      () => null,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(CommandError);
    return error as CommandError;
  };

  it("must not define a type twice", async () => {
    expect((await refusal(load('export const a = make("x"); export const list = [make("x")];'))).message).toBe(
      'a and list.0 in jobs.mjs both define the job type "x"',
    );
  });

  it("must have the right shape, or the error names it", async () => {
    const messageFor = async (text: string): Promise<string> =>
      (await refusal(load(`export const a = make("a"); export const ${text};`))).message;
    for (const reporter of ["{}", "null", "[]", "() => {}", "{ report: 3 }"]) {
      expect(await messageFor(`reporter = ${reporter}`)).toBe(
        "reporter in jobs.mjs must be an object with a report() function",
      );
    }
    for (const telemetry of ["() => {}", "{ run() {} }", "{ enqueue() {} }", "7"]) {
      expect(await messageFor(`telemetry = ${telemetry}`)).toBe(
        "telemetry in jobs.mjs must be an object with functions enqueue() and run()",
      );
    }
    for (const logger of ["false", "{ info() {}, warn() {} }", '"stderr"']) {
      expect(await messageFor(`logger = ${logger}`)).toBe(
        "logger in jobs.mjs must be an object with functions info(), warn() and error()",
      );
    }
    expect(await messageFor("teardown = { flush() {} }")).toBe("teardown in jobs.mjs must be a function");
  });

  it("cause an error if there are no jobs", async () => {
    const cwd = project({ "jobs.ts": "", "src/x.json": "{}" });
    expect((await refusal(load("export const a = 1; export function b() {}"))).message).toBe(
      "no job types in jobs.mjs; it exports a, b",
    );
    expect((await refusal(load('export const a = make("a"); export const setup = 3;'))).message).toBe(
      "setup in jobs.mjs must be a function",
    );
    expect((await refusal(loadJobs("jobs.ts", cwd))).message).toBe("no job types in jobs.ts; it exports nothing");
    expect(await refusal(loadJobs("jobs", cwd))).toMatchObject({
      message: "file not found: jobs",
      hint: "did you mean jobs.ts?",
    });
    expect((await refusal(loadJobs("none.ts", cwd))).message).toBe("file not found: none.ts");
    expect((await refusal(loadJobs("src", cwd))).message).toBe("src is not a file");
    expect((await refusal(loadJobs("src/x.json", cwd))).message).toBe("src/x.json is not a jobs module");
  });

  it("cause an error with its cause if loading fails", async () => {
    const cwd = project({
      "throws.ts": 'const x: number = 1;\nthrow new Error("no database\\nhere");\nexport { x };\n',
      "syntax.ts": "export const x: = 1;\n",
      "missing.ts": 'import { x } from "./nowhere.js";\nexport const y: number = x;\n',
      "wrong.ts": 'import { job } from "holdfast";\nexport const a = job({ type: "", run() {} } as never);\n',
    });
    const throwing = await refusal(loadJobs("throws.ts", cwd));
    expect(throwing.message).toBe("throws.ts cannot be loaded: no database here");
    expect((throwing.cause as Error).stack).toMatch(/throws\.ts:2/);
    expect((await refusal(loadJobs("syntax.ts", cwd))).message).toMatch(/^syntax\.ts cannot be loaded: .*1:1\d/);
    expect((await refusal(loadJobs("missing.ts", cwd))).message).toMatch(/^missing\.ts cannot be loaded: .*nowhere/);
    expect((await refusal(loadJobs("wrong.ts", cwd))).cause).toBeInstanceOf(InvalidOptionError);
  });
});

describe("a process without the loaders of a test runner", () => {
  it("loads TypeScript", async () => {
    const cwd = project({ "src/jobs.ts": TYPED, ...OTHER_FILES });
    const script = `import { loadJobs } from ${JSON.stringify(join(PACKAGE, "dist/cli/module/load-module.js"))};
const { jobs } = await loadJobs("src/jobs.ts", { cwd: process.cwd(), env: process.env });
console.log(jobs.map(({ type }) => type).join());\n`;
    writeFileSync(join(cwd, "load.mjs"), script);
    expect(await runNode(join(cwd, "load.mjs"), [], { cwd })).toEqual({
      code: 0,
      stdout: "greet,refuse\n",
      stderr: "",
    });
  });
});
