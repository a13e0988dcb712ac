import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

const home = join(import.meta.dirname, "packages/holdfast");

// Tests import the compiled modules, not the bundles that are published: one copy of each module, whether a test imports the
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

/** A file with this name runs with `npm run test:all` only. */
const LONG = "**/*.long.test.ts";
/** Tests of the engine and of telemetry that also run on PostgreSQL, some on DynamoDB too. */
const ON_SERVERS = ["engine/fake-clock", "observe/opentelemetry", "observe/sentry"].map(
  (name) => `packages/holdfast/test/${name}.test.ts`,
);

interface ProjectOptions {
  exclude?: string[];
  /** Whether each file runs in a separate process. Default: yes. Where most files take less than a second, it doubles their time. */
  isolate?: boolean;
  alias?: { find: RegExp; replacement: string }[];
}

function project(
  name: string,
  include: string[],
  { exclude = [LONG], isolate = true, alias: aliases = alias }: ProjectOptions = {},
): TestProjectInlineConfiguration {
  return {
    resolve: { alias: aliases },
    test: {
      name,
      include,
      exclude,
      pool: "forks",
      isolate,
      testTimeout: 30_000,
      hookTimeout: 30_000,
      // Tests import the built product. Node loads it as it would for a user; vitest maps stack traces to src.
      server: { deps: { external: [/\/packages\/[^/]+\/dist\//] } },
    },
  };
}

function folder(name: string): string {
  return `packages/holdfast/test/${name}/**/*.test.ts`;
}

/** The files that take longest, longest first. They start first, so that no worker is left alone with one at the end. */
const LONGEST = [
  /storms\.long/,
  /conformance-shards\.long/,
  /\.long\.test/,
  /bench\/test\/smoke/,
  /torture\/command/,
  /cli\/commands/,
  /dynamodb\/conformance-/,
  /postgres\/conformance-/,
  /\/model/,
  /dynamodb\/units/,
  /docs\/docs/,
  /test\/examples\//,
  /test\/conformance-/,
  /postgres\/(?:doctor|import-legacy)/,
];

function rank({ moduleId }: TestSpecification): number {
  const at = LONGEST.findIndex((pattern) => pattern.test(moduleId));
  return at < 0 ? LONGEST.length : at;
}

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}

const CONFORMANCE = ["packages/holdfast/test/conformance-*.test.ts"];
const SQLITE = ["packages/holdfast/test/model*.test.ts", folder("sqlite")];
const POSTGRES = [folder("postgres"), folder("pack"), ...ON_SERVERS];
const DYNAMODB = [folder("dynamodb")];
const CLI = [folder("cli")];
const ADMIN = [folder("admin")];
const DASHBOARD = ["packages/dashboard/test/**/*.test.ts"];
const BENCH = ["bench/test/**/*.test.ts"];
const TORTURE = ["bench/test/torture/**/*.test.ts"];
const PACKS = ["packages/!(holdfast|dashboard)/test/**/*.test.ts"];

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    maxWorkers: availableParallelism(),
    globalSetup: ["packages/holdfast/test/global-setup.ts", "packages/dashboard/test/global-setup.ts"],
    projects: [
      // All tests that are in no other project, so that a new folder is not forgotten.
      project("unit", ["packages/*/test/**/*.test.ts"], {
        exclude: [LONG, ...CONFORMANCE, ...SQLITE, ...POSTGRES, ...DYNAMODB, ...CLI, ...ADMIN, ...DASHBOARD, ...PACKS],
        isolate: false,
      }),
      // The conformance suite on SQLite, apart from the other tests on SQLite: `npm run test:quick` runs it with the unit tests.
      project("conformance", CONFORMANCE, { isolate: false }),
      project("sqlite", SQLITE, { isolate: false }),
      project("postgres", POSTGRES, { isolate: false }),
      project("dynamodb", DYNAMODB, { isolate: false }),
      project("cli", CLI, { isolate: false }),
      project("admin", ADMIN, { isolate: false }),
      project("dashboard", DASHBOARD, { isolate: false }),
      // Packs are tested as users load them: with the published bundles of the core.
      project("packs", PACKS, { alias: [], isolate: false }),
      project("docs", ["test/**/*.test.ts"]),
      project("bench", BENCH, { exclude: [LONG, ...TORTURE] }),
      project("torture", TORTURE),
      project("long", ["{packages/{holdfast,dashboard}/test,bench/test,test}/**/*.long.test.ts"], { exclude: [] }),
      project("long-packs", ["packages/!(holdfast|dashboard)/test/**/*.long.test.ts"], { exclude: [], alias: [] }),
    ],
  },
});
