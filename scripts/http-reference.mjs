// Writes docs/reference/http-api.md from the table of routes. A test fails when the page is out of date.
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const { referenceText } = await import(join(root, "packages/holdfast/dist/admin/contract/reference.js"));
const page = join(root, "docs/reference/http-api.md");
writeFileSync(page, referenceText());
spawnSync(join(root, "node_modules/.bin/oxfmt"), [page], { stdio: "inherit" });
