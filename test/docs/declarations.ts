import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { ROOT } from "./documents.js";

const DIST = join(ROOT, "packages/holdfast/dist");

/** The names an entry point exports, types included, read from its declarations. */
export function exportsOf(file: string): string[] {
  const text = readFileSync(join(DIST, file), "utf8");
  const names = [...text.matchAll(/^export (?:type )?\{(?<list>[^}]*)\}/gm)].flatMap(({ groups }) =>
    (groups?.["list"] ?? "").split(",").map((name) => name.replace(/^.* as /s, "").trim()),
  );
  const declared = [
    ...text.matchAll(/^export (?:declare )?(?:abstract )?(?:class|function|const|interface|type) (?<name>\w+)/gm),
  ].map(({ groups }) => groups?.["name"] ?? "");
  const passedOn = [...text.matchAll(/^export \* from "(?<from>[^"]+)"/gm)].flatMap(({ groups }) =>
    exportsOf(join(dirname(file), (groups?.["from"] ?? "").replace(/\.js$/, ".d.ts"))),
  );
  return [...names, ...declared, ...passedOn].filter((name) => name !== "");
}

/** Declaration files of the public API: not the admin API, and no store classes that have the name of a public one. */
const declarations = readdirSync(DIST, { recursive: true, encoding: "utf8" })
  .filter(
    (file) =>
      file.endsWith(".d.ts") && !/^(?:admin|bundle|cli)\b|^stores\/\w+\/(?:audit|schedules|tokens)\./.test(file),
  )
  .map((file) => readFileSync(join(DIST, file), "utf8"));

/** The public members that an interface, class or union of objects declares itself. */
export function membersOf(name: string): string[] {
  const pattern = new RegExp(`^export (?:declare )?(?:interface|class|type) ${name}\\b[^{]*\\{$`, "m");
  const [text, ...others] = declarations.filter((declaration) => pattern.test(declaration));
  if (text === undefined || others.length > 0)
    throw new Error(`${others.length + 1} files declare ${name}; expected 1`);
  const start = pattern.exec(text);
  if (start === null) throw new Error(`no file declares ${name}`);
  const end = / type /.test(start[0]) ? /^\}.*;$/m : /^\}/m;
  const [body = ""] = text.slice(start.index + start[0].length).split(end);
  const withoutComments = body.replace(/\/\*\*[\s\S]*?\*\//g, (comment) => (comment.includes("@internal") ? "@" : ""));
  const members = [...withoutComments.matchAll(/^ {4}(?:(?:readonly|get|async) )*(?<name>\w+)[?(<:]/gm)];
  return [...new Set(members.map(({ groups }) => groups?.["name"] ?? ""))].filter((member) => member !== "constructor");
}

/** The code of every error class. */
export function errorCodes(): Map<string, string> {
  const text = ["errors.js", "job/retry-after.js", "job/cancel.js", "job/step-errors.js"]
    .map((file) => readFileSync(join(DIST, file), "utf8"))
    .join("\n");
  const classes = text.matchAll(
    /^export class (?<name>\w+) extends HoldfastError \{[\s\S]*?super\((?:\w+ \?\? |\s*)"(?<code>\w+)"/gm,
  );
  return new Map([...classes].map(({ groups }) => [groups?.["name"] ?? "", groups?.["code"] ?? ""]));
}
