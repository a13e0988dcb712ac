import { beforeAll, describe, it } from "vitest";
import { checkBlock, checkLink, isRelative, titleOf } from "./checks.js";
import { findDocuments } from "./documents.js";
import { compile, type Programs } from "./programs.js";

const documents = findDocuments();
let programs: Programs;

beforeAll(async () => {
  const blocks = documents.flatMap((document) => document.blocks);
  programs = await compile(
    "documents",
    blocks.filter(({ language }) => language === "ts"),
  );
});

describe.concurrent("every block", () => {
  for (const { blocks } of documents) {
    for (const [index, block] of blocks.entries()) {
      it(`${titleOf(block)}`, () => checkBlock(block, { programs, next: blocks[index + 1] }));
    }
  }
});

describe("every relative link", () => {
  for (const { path, links } of documents) {
    for (const link of links.filter(isRelative)) {
      it(`${path}:${link.line} ${link.target} leads somewhere`, () => checkLink(path, link));
    }
  }
});
