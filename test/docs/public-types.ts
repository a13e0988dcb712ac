import { readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { ROOT } from "./documents.js";

/** One declaration file: what it declares, imports and re-exports. Files are paths inside `dist`. */
interface Declarations {
  text: string;
  /** Text of each top-level declaration, without comments, strings and private members. */
  declared: Map<string, string>;
  /** Names from other files of the package: where they come from, and what they are called there. */
  imported: Map<string, Origin>;
  exported: Map<string, Origin>;
}

interface Origin {
  file: string;
  name: string;
}

/** The published declarations of a package. */
export interface PublicTypes {
  /** The `types` of every entry point, from the package's export map. */
  entryPoints: () => Map<string, string>;
  /** Every declaration file that an entry point reaches by imports. */
  reachableFiles: () => string[];
  textOf: (file: string) => string;
  /**
   * Types in the declaration of a public name that no entry point exports, as `file: name uses Type`. Aliases that are private to
   * their file are read as if they were written out.
   */
  unexportedTypes: () => string[];
}

/** `folder`: below packages/. */
export function publicTypes(folder: string): PublicTypes {
  const DIST = join(ROOT, "packages", folder, "dist");
  const files = new Map<string, Declarations>();

  function entryPoints(): Map<string, string> {
    const manifest = JSON.parse(readFileSync(join(DIST, "../package.json"), "utf8")) as {
      exports: Record<string, string | { types: string }>;
    };
    return new Map(
      Object.entries(manifest.exports).flatMap(([entry, target]) =>
        typeof target === "string" ? [] : [[entry, target.types.replace("./dist/", "")] as const],
      ),
    );
  }

  function reachableFiles(): string[] {
    const found = new Set<string>();
    const visit = (file: string): void => {
      if (found.has(file)) return;
      found.add(file);
      for (const { file: next } of [...read(file).imported.values(), ...read(file).exported.values()]) visit(next);
    };
    for (const file of entryPoints().values()) visit(file);
    return [...found];
  }

  function textOf(file: string): string {
    return read(file).text;
  }

  function unexportedTypes(): string[] {
    const isPublic = new Set<string>();
    for (const entry of entryPoints().values()) {
      for (const origin of read(entry).exported.values()) isPublic.add(key(resolve(origin)));
    }
    const missing = new Set<string>();
    const check = (publicName: string, { file, name }: Origin, seen: Set<string>): void => {
      const { declared, imported, exported } = read(file);
      for (const [used] of (declared.get(name) ?? "").matchAll(/(?<!typeof )\b[A-Za-z_]\w*\b/g)) {
        const origin = imported.get(used) ?? (declared.has(used) ? { file, name: used } : null);
        if (origin === null || seen.has(key(origin)) || isPublic.has(key(resolve(origin)))) continue;
        seen.add(key(origin));
        if (origin.file === file && !exported.has(used)) check(publicName, origin, seen);
        else missing.add(`${file}: ${publicName} uses ${used}`);
      }
    };
    for (const known of isPublic) {
      const [file = "", name = ""] = known.split("#");
      check(name, { file, name }, new Set([known]));
    }
    return [...missing].toSorted();
  }

  function key({ file, name }: Origin): string {
    return `${file}#${name}`;
  }

  /** Follows re-exports to the file that declares the name. */
  function resolve(origin: Origin): Origin {
    const next = read(origin.file).declared.has(origin.name) ? undefined : read(origin.file).exported.get(origin.name);
    return next === undefined || key(next) === key(origin) ? origin : resolve(next);
  }

  function read(file: string): Declarations {
    const known = files.get(file);
    if (known !== undefined) return known;
    const text = readFileSync(join(DIST, file), "utf8");
    const read: Declarations = { text, declared: new Map(), imported: new Map(), exported: new Map() };
    files.set(file, read);
    const code = text
      .replace(/\/\*[\s\S]*?\*\//g, "")
      .replace(/^\s*\/\/.*$/gm, "")
      .replace(/^ +(?:private .*|#private);$/gm, "");
    for (const statement of code.split(/^(?=import\b|export\b|declare\b|interface\b|type\b)/m))
      readStatement(file, statement, read);
    return read;
  }

  function readStatement(file: string, statement: string, { declared, imported, exported }: Declarations): void {
    const from = /from "(?<from>\.[^"]+)";/.exec(statement)?.groups?.["from"];
    const source = from === undefined ? null : normalize(join(dirname(file), from.replace(/\.js$/, ".d.ts")));
    const [, list] = /^(?:import|export) (?:type )?(?:\w+, )?\{([^}]*)\}/.exec(statement) ?? [];
    if (list !== undefined) {
      for (const part of list.split(",").map((name) => name.trim().replace(/^type /, ""))) {
        const [name = "", alias = name] = part.split(" as ");
        if (name === "") continue;
        if (statement.startsWith("import")) {
          if (source !== null) imported.set(alias, { file: source, name });
        } else exported.set(alias, source === null ? (imported.get(name) ?? { file, name }) : { file: source, name });
      }
      return;
    }
    if (/^export (?:type )?\*/.test(statement) && source !== null) {
      for (const [name, origin] of read(source).exported) exported.set(name, origin);
      return;
    }
    const name =
      /^(?:export )?(?:declare )?(?:abstract )?(?:class|function|const|let|interface|type|enum) (?<name>\w+)/.exec(
        statement,
      )?.groups?.["name"];
    if (name === undefined) return;
    const body = statement.replace(/"[^"]*"|'[^']*'|`[^`]*`/g, '""');
    declared.set(name, `${declared.get(name) ?? ""}${body}`);
    if (statement.startsWith("export")) exported.set(name, { file, name });
  }

  return { entryPoints, reachableFiles, textOf, unexportedTypes };
}
