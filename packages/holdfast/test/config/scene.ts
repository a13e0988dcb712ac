import { mkdirSync, mkdtempSync, realpathSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { InvalidConfigError, readConfig, type Config, type ConfigPlace } from "#src/config/index.js";

/** A temporary folder with these files. It is deleted at the end of the run. */
export function folder(files: Readonly<Record<string, string>> = {}): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), "holdfast-config-")));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true });
    writeFileSync(join(path, name), text);
  }
  return path;
}

/** Reads the configuration of a folder with this holdfast.toml. */
export function read(toml: string | null, more: Partial<ConfigPlace> = {}): Config {
  const cwd = folder(toml === null ? {} : { "holdfast.toml": toml });
  return readConfig({ cwd, env: {}, ...more });
}

/** The problems of the configuration. */
export function problemsOf(toml: string | null, more: Partial<ConfigPlace> = {}): readonly string[] {
  try {
    read(toml, more);
  } catch (error) {
    if (error instanceof InvalidConfigError) return error.problems;
    throw error;
  }
  throw new Error("nothing was refused");
}
