// Writes docs/reference/cli.md from the table of commands. A test fails when the page is out of date.
import { writeFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const { program } = await import(join(root, "packages/holdfast/dist/cli/program.js"));
const { rootOf } = await import(join(root, "packages/holdfast/dist/cli/parse/command.js"));
const { referenceText } = await import(join(root, "packages/holdfast/dist/cli/parse/reference.js"));
writeFileSync(join(root, "docs/reference/cli.md"), referenceText(rootOf(program())));
