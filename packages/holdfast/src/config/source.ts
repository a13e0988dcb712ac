import { isAbsolute, relative } from "node:path";

/** Where a value came from. */
export type Source =
  | { readonly kind: "default" }
  | { readonly kind: "file"; readonly file: string; readonly line: number }
  | { readonly kind: "variable"; readonly name: string }
  | { readonly kind: "flag"; readonly name: string };

/** `holdfast.toml:3`, `HOLDFAST_STORE`, `--store` or `default`. */
export function showSource(source: Source, cwd: string): string {
  switch (source.kind) {
    case "default":
      return "default";
    case "file":
      return `${showPath(source.file, cwd)}:${source.line}`;
    case "variable":
    case "flag":
      return source.name;
  }
}

/** A relative path if the file is below the current folder, otherwise the absolute path. */
export function showPath(file: string, cwd: string): string {
  const short = relative(cwd, file);
  return short === "" || short.startsWith("..") || isAbsolute(short) ? file : short;
}
