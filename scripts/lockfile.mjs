// Checks for lockfile problems that make `npm ci` fail on other machines only.
import { readFileSync } from "node:fs";
import { join } from "node:path";

const text = readFileSync(join(import.meta.dirname, "../package-lock.json"), "utf8");
/** @type {Record<string, { version?: string, optionalDependencies?: Record<string, string> }>} */
const packages = JSON.parse(text).packages;

/** @type {string[]} */
const problems = [];

// Registries differ between machines. A URL in the lockfile would force one registry on all of them.
if (text.includes('"resolved": "http')) problems.push("names download addresses; .npmrc should keep them out");

// npm omits optional packages that it cannot find (npm/cli#4828), and then rejects that lockfile in a fresh clone.
for (const [path, { optionalDependencies = {} }] of Object.entries(packages)) {
  for (const name of Object.keys(optionalDependencies)) {
    const found = packages[`${path}/node_modules/${name}`] ?? packages[`node_modules/${name}`];
    if (found?.version === undefined) problems.push(`lacks ${name}, an optional part of ${path}; use another version`);
  }
}

for (const problem of problems) console.error(`package-lock.json ${problem}`);
if (problems.length > 0)
  console.error("After fixing package.json, run: rm -r node_modules package-lock.json; npm install");
process.exitCode = problems.length > 0 ? 1 : 0;
