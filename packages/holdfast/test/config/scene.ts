import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { InvalidConfigError, readConfig, type Config, type ConfigPlace } from "#src/config/index.js";
import { afterAll } from "vitest";

// Not by test: those that run beside each other would not know whose is whose.
const made: string[] = [];
afterAll(() => {
  for (const path of made) rmSync(path, { recursive: true, force: true });
});

/** A folder that is deleted when the tests are over, with these files in it. */
export function folder(files: Readonly<Record<string, string>> = {}): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), "holdfast-config-")));
  made.push(path);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true });
    writeFileSync(join(path, name), text);
  }
  return path;
}

/** The configuration of a folder whose holdfast.toml has this text. */
export function read(toml: string | null, more: Partial<ConfigPlace> = {}): Config {
  const cwd = folder(toml === null ? {} : { "holdfast.toml": toml });
  return readConfig({ cwd, env: {}, ...more });
}

/** What is wrong with it, each a sentence. */
export function problemsOf(toml: string | null, more: Partial<ConfigPlace> = {}): readonly string[] {
  try {
    read(toml, more);
  } catch (error) {
    if (error instanceof InvalidConfigError) return error.problems;
    throw error;
  }
  throw new Error("nothing was refused");
}
