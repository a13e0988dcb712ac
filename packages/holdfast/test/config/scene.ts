import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { InvalidConfigError, readConfig, type Config, type ConfigPlace } from "#src/config/index.js";
import { afterAll } from "vitest";

// Per file, not per test, because concurrent tests share it.
const made: string[] = [];
afterAll(() => {
  for (const path of made) rmSync(path, { recursive: true, force: true });
});

/** A temporary folder with these files. It is deleted after the tests. */
export function folder(files: Readonly<Record<string, string>> = {}): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), "holdfast-config-")));
  made.push(path);
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
