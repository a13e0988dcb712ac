// Checks what `npm ci` on another machine would trip over, and this one would not notice.
import { readFileSync } from "node:fs";
import { join } from "node:path";

const text = readFileSync(join(import.meta.dirname, "../package-lock.json"), "utf8");
/** @type {Record<string, { version?: string, optionalDependencies?: Record<string, string> }>} */
const packages = JSON.parse(text).packages;

/** @type {string[]} */
const problems = [];

// Registries differ from place to place; an address in the lockfile would bind everyone to one of them.
if (text.includes('"resolved": "http')) problems.push("names download addresses; .npmrc should keep them out");

// npm leaves out what it cannot find at the moment (npm/cli#4828), then refuses such a lockfile in a fresh clone.
for (const [path, { optionalDependencies = {} }] of Object.entries(packages)) {
  for (const name of Object.keys(optionalDependencies)) {
    const found = packages[`${path}/node_modules/${name}`] ?? packages[`node_modules/${name}`];
    if (found?.version === undefined) problems.push(`lacks ${name}, an optional part of ${path}; use another version`);
  }
}

for (const problem of problems) console.error(`package-lock.json ${problem}`);
if (problems.length > 0) console.error("After mending package.json: rm -r node_modules package-lock.json; npm install");
process.exitCode = problems.length > 0 ? 1 : 0;
