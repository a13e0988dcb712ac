import { beforeAll, describe, expect, it } from "vitest";
import { checkBlock, checkLink, isRelative, linkedFrom, titleOf } from "./checks.js";
import { databases as makeDatabases } from "./databases.js";
import { findDocuments, parseDocument } from "./documents.js";
import { compile, type Programs } from "./programs.js";
import { tables as makeTables } from "./tables.js";

const documents = findDocuments();
const databases = makeDatabases();
const tables = makeTables();
// While the servers start.
const compiling = compile(
  "documents",
  documents.flatMap(({ blocks }) => blocks.filter(({ language }) => language === "ts")),
);
compiling.catch(() => {});
let programs: Programs;

beforeAll(async () => {
  programs = await compiling;
}, 60_000);

describe.concurrent("every block", () => {
  for (const { blocks } of documents) {
    for (const [index, block] of blocks.entries()) {
      it(`${titleOf(block)}`, ({ skip }) => {
        const reason = tables.reasonAgainst(block);
        if (reason !== null) skip(reason);
        return checkBlock(block, { programs, databases, tables, previous: blocks[index - 1], next: blocks[index + 1] });
      });
    }
  }
});

// Here, and not among the other mistakes, for the sake of the server.
it("SQL for PostgreSQL that names no table of ours is found", async () => {
  const text = "~~~sql\nSELECT 1 FROM holdfast.jobs;\n~~~\n~~~sql\nSELECT 1 FROM holdfast_jobs;\n~~~";
  const [good, bad] = parseDocument("docs/guides/postgres-made-up.md", text).blocks;
  if (good === undefined || bad === undefined) throw new Error("there are no such blocks");
  await checkBlock(good, { programs, databases, next: undefined });
  await expect(checkBlock(bad, { programs, databases, next: undefined })).rejects.toThrow(/holdfast_jobs/);
});

it("C-21 the README leads to every guide and reference: the queue, its configuration, the command, the API", () => {
  const byPath = new Map(documents.map((document) => [document.path, document]));
  const reached = new Set<string>();
  const walk = (path: string): void => {
    const document = byPath.get(path);
    if (document === undefined || reached.has(path)) return;
    reached.add(path);
    for (const { target } of document.links.filter(isRelative)) walk(linkedFrom(path, target));
  };
  walk("README.md");
  const guides = [...byPath.keys()].filter((path) => /^docs\/(?:guides|reference)\//.test(path));
  expect(guides.length).toBeGreaterThan(15);
  expect(guides.filter((path) => !reached.has(path))).toEqual([]);
});

describe("every relative link", () => {
  for (const { path, links } of documents) {
    for (const link of links.filter(isRelative)) {
      it(`${path}:${link.line} ${link.target} leads somewhere`, () => checkLink(path, link));
    }
  }
});
