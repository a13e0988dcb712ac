// Writes docs/reference/test-matrix.md from the requirement numbers in test titles. With --check it writes nothing: it fails if
// the page is out of date, or if `npm test` proves less than the page says, because a proof moved to a *.long.test.ts file.
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";

const root = join(import.meta.dirname, "..");
const page = join(root, "docs/reference/test-matrix.md");
const folders = ["packages", "examples", "test"];
const STORES = ["SQLite", "PostgreSQL", "DynamoDB"];

/** The files that run the whole conformance suite. @type {Record<string, string[]>} */
const CONFORMANCE = {
  SQLite: ["conformance-file"],
  PostgreSQL: ["jobs", "schedules", "processes"].map((part) => `postgres/conformance-${part}`),
  DynamoDB: ["jobs", "schedules", "processes"].map((part) => `dynamodb/conformance-${part}`),
};

/** @typedef {{ path: string, text: string }} Source */
/** @typedef {{ path: string, line: number, title: string, stores: string[] }} Proof */

/** A title: a string that begins with one or several numbers. */
const TITLE = /(["'`])((?:[A-E]-\d\d[:,]? )+)((?:(?!\1).)+)\1/;

/** @param {string} folder @returns {string[]} the TypeScript files below it, without those in hidden folders, which tests write and delete */
function filesBelow(folder) {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (!entry.isDirectory()) return path.endsWith(".ts") ? [path] : [];
    return /^(?:\..*|node_modules|dist)$/.test(entry.name) ? [] : filesBelow(path);
  });
}

/** @returns {Source[]} every file with tests, or with cases that such files run */
function sources() {
  return folders
    .flatMap(filesBelow)
    .filter((path) => /\/test\/|^test\/|\/src\/testing\//.test(path))
    .toSorted()
    .map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }));
}

/** @param {Source} source @param {readonly Source[]} all @returns {string[]} the stores that its tests run on */
function storesOf({ path, text }, all) {
  if (path.includes("/exercise-store/")) {
    return STORES.filter((store) =>
      CONFORMANCE[store]?.every((file) => all.some((other) => other.path.endsWith(`/test/${file}.test.ts`))),
    );
  }
  const name = /([^/]+)\.ts$/.exec(path)?.[1] ?? "";
  if (!path.endsWith(".test.ts")) {
    const users = all.filter((other) => other.path.endsWith(".test.ts") && other.text.includes(`/${name}.js"`));
    return STORES.filter((store) => users.some((user) => storesOf(user, all).includes(store)));
  }
  const uses = {
    SQLite: !/\/(?:postgres|dynamodb|domain|config|schedule)\/|^test\//.test(path),
    PostgreSQL: /\b(?:postgresServer|adminStores|bothStores)\(/.test(text),
    DynamoDB: text.includes("dynamoServer("),
  };
  return STORES.filter((store) => uses[/** @type {keyof typeof uses} */ (store)]);
}

/** @param {readonly Source[]} all @returns {Map<string, Proof[]>} the tests that prove each number */
function proofs(all) {
  /** @type {Map<string, Proof[]>} */
  const found = new Map();
  for (const source of all) {
    for (const [index, line] of source.text.split("\n").entries()) {
      const [, , numbers = "", title = ""] = TITLE.exec(line) ?? [];
      for (const number of numbers.match(/[A-E]-\d\d/g) ?? []) {
        const proof = { path: source.path, line: index + 1, title, stores: storesOf(source, all) };
        found.set(number, [...(found.get(number) ?? []), proof]);
      }
    }
  }
  return found;
}

/** @param {string} title as Markdown takes it for plain text */
function plain(title) {
  return title
    .replaceAll(/\$\{[^}]*\}/g, "…")
    .replaceAll("\\", "")
    .replaceAll(/[*_<>[\]`|~]/g, String.raw`\$&`);
}

function matrix() {
  const { queues, requirements } = JSON.parse(readFileSync(join(root, "scripts/requirements.json"), "utf8"));
  const proved = proofs(sources());
  const lines = [
    "# Test matrix",
    "",
    "Which test proves which requirement, and on which stores it runs. Written by `node scripts/test-matrix.mjs` from the numbers in the",
    "titles of the tests; a number stands only on a test that proves its line. The five queues are those whose work Holdfast does; where",
    "their defaults differ from ours, [Configuration](../guides/configuration.md#defaults-of-other-queues) says how to get theirs.",
    "",
  ];
  for (const [letter, title] of Object.entries(queues)) {
    lines.push(`## ${letter}: ${title}`, "");
    for (const [number, what] of Object.entries(requirements)) {
      if (!number.startsWith(letter)) continue;
      const tests = proved.get(number) ?? [];
      const stores = storesOfAll(tests);
      lines.push(`### ${number}`, "", String(what), "");
      if (tests.length === 0) lines.push("No test yet.", "");
      else {
        lines.push(stores.length === 0 ? "Needs no store." : `On ${stores.join(", ")}.`, "");
        for (const { path, title: words } of tests) {
          lines.push(
            `- [${path.split("/").slice(-2).join("/")}](${relative("docs/reference", path)}): ${plain(words)}`,
          );
        }
        lines.push("");
      }
    }
  }
  const unknown = [...proved.keys()].filter((number) => !(number in requirements));
  if (unknown.length > 0) throw new Error(`there is no requirement ${unknown.join(", ")}`);
  return `${lines.join("\n").trimEnd()}\n`;
}

/** @param {readonly Proof[]} tests @returns {string[]} the stores on which they prove their requirement */
function storesOfAll(tests) {
  return STORES.filter((store) => tests.some((test) => test.stores.includes(store)));
}

/** @returns {string[]} what the long set proves and `npm test` does not */
function onlyInLongSet() {
  const all = sources();
  const regular = proofs(all.filter(({ path }) => !path.endsWith(".long.test.ts")));
  return [...proofs(all)].flatMap(([number, tests]) => {
    const found = regular.get(number);
    if (found === undefined) return [number];
    const proved = storesOfAll(found);
    return storesOfAll(tests).flatMap((store) => (proved.includes(store) ? [] : [`${number} on ${store}`]));
  });
}

const written = matrix();
if (process.argv.includes("--check")) {
  const missing = onlyInLongSet();
  if (missing.length > 0) {
    console.error(`npm test does not prove ${missing.join(", ")}; move the test out of the long set`);
    process.exitCode = 1;
  }
  if (readFileSync(page, "utf8") !== written) {
    console.error("docs/reference/test-matrix.md is not up to date; run node scripts/test-matrix.mjs");
    process.exitCode = 1;
  }
} else {
  writeFileSync(page, written);
  spawnSync(join(root, "node_modules/.bin/oxfmt"), [page], { stdio: "inherit" });
  if (readFileSync(page, "utf8") !== written) throw new Error("the formatter would write it otherwise");
}
