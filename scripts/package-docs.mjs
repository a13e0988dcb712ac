// Copies the README, the changelog, the guides and the references into the package, so that its page shows the whole README
// and its links work wherever the package is installed. Links to files that do not ship become plain text, and images are left out.
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";

const root = join(import.meta.dirname, "..");
const home = join(root, "packages/holdfast");

const pages = [
  "README.md",
  "CHANGELOG.md",
  ...["docs/guides", "docs/reference"].flatMap((folder) =>
    readdirSync(join(root, folder)).map((file) => `${folder}/${file}`),
  ),
].filter((page) => page !== "docs/reference/test-matrix.md");
const shipped = new Set([...pages, "LICENSE"]);

rmSync(join(home, "docs"), { recursive: true, force: true });
for (const page of pages) {
  const source = readFileSync(join(root, page), "utf8").replaceAll(/^!\[[^\]]*\]\((?!https?:)[^)]+\)\n\n?/gm, "");
  const text = source.replaceAll(
    /(?<!!)\[(?<label>[^\]]*)\]\((?!https?:|#)(?<path>[^)#]+)(?<anchor>#[^)]*)?\)/g,
    (link, label, path) => (shipped.has(posix.join(posix.dirname(page), path)) ? link : label),
  );
  mkdirSync(dirname(join(home, page)), { recursive: true });
  writeFileSync(join(home, page), text);
}
