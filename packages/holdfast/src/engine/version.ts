import { readFileSync } from "node:fs";

let known: string | null = null;

/** The version of this package; "unknown" in a bundle without its package.json. */
export function version(): string {
  return (known ??= readVersion());
}

function readVersion(): string {
  try {
    const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
    const found = (JSON.parse(text) as { name?: unknown; version?: unknown }) ?? {};
    return found.name === "holdfast" && typeof found.version === "string" ? found.version : "unknown";
  } catch {
    return "unknown";
  }
}
