import { defineConfig } from "vitest/config";

export default defineConfig({
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
