import { beforeAll, describe, expect, it } from "vitest";
import { checkBlock, checkLink } from "./checks.js";
import { parseDocument, type Block, type Document } from "./documents.js";
import { compile, type Programs } from "./programs.js";

/** A document with one block of each kind of mistake. Fences are written with ~ so that this file stays readable. */
function documentWith(...parts: string[]): Document {
  return parseDocument("made-up.md", parts.join("\n"));
}

const ts = (...lines: string[]): string => ["~~~ts", ...lines, "~~~"].join("\n");

describe("a mistake in a document is found", () => {
  const document = documentWith(
    ts("const n: number = 'text';"),
    ts("throw new Error('thrown');"),
    ts("setInterval(() => {}, 1_000);"),
    "<!-- output -->",
    ts("console.log('a\\nb');"),
    "~~~text\nb\na\n~~~",
    "<!-- output -->",
    ts("console.log('fine');"),
    "~~~text\nfine\n~~~",
    "<!-- output -->",
    ts("console.log('alone');"),
    ts("process.kill(process.pid, 'SIGKILL');"),
  );
  let programs: Programs;
  const check = (block: Block | undefined, limitMs = 20_000): Promise<void> => {
    if (block === undefined) throw new Error("there is no such block");
    return checkBlock(block, { programs, next: document.blocks[document.blocks.indexOf(block) + 1], limitMs });
  };

  beforeAll(async () => {
    programs = await compile(
      "mistakes",
      document.blocks.filter(({ language }) => language === "ts"),
    );
  });

  it("a type error, by document and line", async () => {
    await expect(check(document.blocks[0])).rejects.toThrow(/^made-up\.md:2: error TS2322/);
  });

  it("a program that throws, with the line of the document in its stack", async () => {
    await expect(check(document.blocks[1])).rejects.toThrow(/made-up\.md:5: ended with 1.*thrown.*made-up-5\.ts:5:/s);
  });

  it("a program that does not end", async () => {
    await expect(check(document.blocks[2], 500)).rejects.toThrow("made-up.md:8: still running after 0.5 s");
  });

  it("a program that is killed", async () => {
    await expect(check(document.blocks[8])).rejects.toThrow("ended with SIGKILL");
  });

  it("lines of output in another order", async () => {
    await expect(check(document.blocks[3])).rejects.toThrow('"a" is not printed');
    await check(document.blocks[5]);
  });

  it("an output that is announced and missing", async () => {
    await expect(check(document.blocks[7])).rejects.toThrow("no text block");
  });

  it.each([
    ["yarn add holdfast", "must not use this command"],
    ["npm publish", "must not use this command"],
    ["npm install left-pad", "left-pad"],
    ["npm run nonsense", "no script nonsense"],
    ["npx holdfast confg list", "unknown command"],
    ["npx holdfast-mail newsletter dispatch", "unknown command"],
    ["npx holdfast-stripe replay", "missing argument <event>"],
    ["npm pack --workspace=@holdfast/mail", "the core is not packed"],
    ["npm pack --workspace=holdfast --workspace=@holdfast/post", "no package @holdfast/post"],
    ["holdfast config set 'jobs.concurrency'", "missing argument <value>"],
  ])("the command %s", async (line, problem) => {
    const [block] = documentWith("~~~sh", "npm install holdfast zod", "npm test -- retry", line, "~~~").blocks;
    await expect(check(block)).rejects.toThrow(problem);
  });

  it("a configuration that would be refused", async () => {
    const [good, bad] = documentWith("~~~toml\n[jobs]\ngrace_s = 3\n~~~", "~~~toml\n[jobs]\ngrace_s = -3\n~~~").blocks;
    await check(good);
    await expect(check(bad)).rejects.toThrow("jobs.grace_s: -3 is not");
  });

  it("commands that print something else, with the file before them", async () => {
    const commands = ["<!-- output -->", "~~~sh", "npx holdfast config get jobs.grace_s # now", "~~~"];
    const { blocks } = documentWith("~~~toml", "[jobs]", "grace_s = 3", "~~~", ...commands, "~~~text", "3", "~~~");
    const [previous, block, right] = blocks;
    const around = { programs, previous, next: right };
    if (block === undefined || right === undefined) throw new Error("there are no such blocks");
    await checkBlock(block, around);
    await expect(checkBlock(block, { ...around, next: { ...right, text: "4" } })).rejects.toThrow('"4" is not printed');
    await expect(checkBlock({ ...block, text: "npm test" }, around)).rejects.toThrow("only calls of holdfast");
  });

  it("broken JSON", async () => {
    const [block] = documentWith("~~~json", "{ a: 1 }", "~~~").blocks;
    await expect(check(block)).rejects.toThrow("JSON");
  });

  it("a rule on a metric that there is not", async () => {
    const [good, bad] = documentWith(
      "~~~yaml\nexpr: rate(holdfast_job_wait_seconds_bucket[5m]) > holdfast_up\n~~~",
      "~~~yaml\nexpr: holdfast_oldest_due > 1\n~~~",
    ).blocks;
    await check(good);
    await expect(check(bad)).rejects.toThrow("there is no metric holdfast_oldest_due;");
  });

  it("SQL that names no table of ours", async () => {
    const [good, bad] = documentWith(
      "~~~sql\nSELECT * FROM holdfast_jobs;\n~~~",
      "~~~sql\nSELECT * FROM jobs;\n~~~",
    ).blocks;
    await check(good);
    await expect(check(bad)).rejects.toThrow("no such table: jobs");
  });

  it.each(["", "js", "typescript", "bash"])("the language %j", async (language) => {
    const [block] = documentWith(`~~~${language}`, "~~~").blocks;
    await expect(check(block)).rejects.toThrow(`"${language}" is none of`);
  });

  it("an output marker out of place", async () => {
    const [block] = documentWith("<!-- output -->", "", "~~~text", "~~~").blocks;
    await expect(check(block)).rejects.toThrow("belongs before a ts or sh block");
  });

  it("a block that is never closed", () => {
    expect(() => documentWith("text", "~~~ts", "const a = 1;")).toThrow("made-up.md:2: the block is never closed");
  });

  it("a link to a file or a heading that is not there", () => {
    const { links } = documentWith("[a](nowhere.md) `[b](code.md)` [c](docs/reference/api.md#events)", "[d]: #gone");
    expect(links.map(({ target }) => target)).toEqual(["nowhere.md", "docs/reference/api.md#events", "#gone"]);
    const [nowhere, events] = links;
    expect(() => checkLink("made-up.md", nowhere ?? { line: 0, target: "" })).toThrow("there is no nowhere.md");
    checkLink("made-up.md", events ?? { line: 0, target: "nowhere" });
    expect(() => checkLink("docs/guides/jobs.md", { line: 1, target: "#gone" })).toThrow("has no heading #gone");
    expect(() => checkLink("README.md", { line: 1, target: "LICENSE#x" })).toThrow("has no headings");
  });
});
