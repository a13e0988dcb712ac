import { readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitest/config";

const home = join(import.meta.dirname, "packages/holdfast");

// Tests import the compiled modules, of which the published files are bundled: one copy of each, whether a test imports the
// public API or an internal module.
const { exports } = JSON.parse(readFileSync(join(home, "package.json"), "utf8")) as {
  exports: Record<string, string | { types: string }>;
};
const alias = Object.entries(exports).flatMap(([name, entry]) =>
  typeof entry === "string"
    ? []
    : [
        {
          find: new RegExp(`^holdfast${name.slice(1)}$`),
          replacement: join(home, entry.types.replace(/\.d\.ts$/, ".js")),
        },
      ],
);

export default defineConfig({
  resolve: { alias },
  test: {
    include: ["packages/*/test/**/*.test.ts", "bench/test/**/*.test.ts", "test/**/*.test.ts"],
    pool: "forks",
    maxWorkers: 2,
    globalSetup: "packages/holdfast/test/dynamodb/shared.ts",
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // Tests import the built product. Node loads it as it would for a user; stack traces still point into src.
    server: { deps: { external: [/\/packages\/[^/]+\/dist\//] } },
    execArgv: ["--enable-source-maps"],
  },
});
