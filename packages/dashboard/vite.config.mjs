import { join } from "node:path";
import { minify } from "terser";
import { defineConfig } from "vite";

const core = join(import.meta.dirname, "../holdfast/src");

/** What the dashboard does not need of the core's modules, and what the bundler would keep. */
const UNUSED = [
  // The list of routes has a sentence about each, for the reference, and its roles, for the server.
  {
    file: /\/contract\/routes\.ts$/,
    parts: /\babout:\s+"(?:[^"\\]|\\.)*",?|\b(?:role: (?:"\w+"|null)|ofUser: true|readOnly: true),?/g,
  },
  // Handlers throw these errors, and the engine recognizes them.
  { file: /\/src\/errors\.ts$/, parts: /\bstatic \{[^}]*\}/g },
];

function withoutUnused() {
  return {
    name: "without-unused",
    /** @param {string} code @param {string} id */
    transform(code, id) {
      const unused = UNUSED.find(({ file }) => file.test(id));
      return unused === undefined ? null : code.replaceAll(unused.parts, "");
    },
  };
}

/**
 * Vite calls dynamic imports with a function that first loads what they import, and their style sheets. Here the one sheet is in the
 * page, and modules import no others than those of the page, so that the function has nothing to do.
 */
function withoutPreload() {
  return {
    name: "without-preload",
    enforce: /** @type {const} */ ("pre"),
    /** @param {string} id */
    load(id) {
      return id === "\0vite/preload-helper.js" ? "export const __vitePreload = (load) => load();" : null;
    },
  };
}

/** Functions that are called once become part of their caller. Vite's own minifier does the rest. */
function withInlined() {
  return {
    name: "with-inlined",
    /** @param {string} code */
    async renderChunk(code) {
      const options = { compress: { passes: 3, ecma: 2020, unsafe_arrows: true, pure_getters: true }, mangle: false };
      return (await minify(code, { module: true, ...options })).code ?? null;
    },
  };
}

/** In nested rules, browsers that have `light-dark()` need no "&" before a descendant. */
function withoutAmpersands() {
  return {
    name: "without-ampersands",
    enforce: /** @type {const} */ ("post"),
    /** @param {unknown} _ @param {Record<string, import("vite").Rolldown.OutputAsset | import("vite").Rolldown.OutputChunk>} bundle */
    generateBundle(_, bundle) {
      for (const file of Object.values(bundle)) {
        if (file.type !== "asset" || !file.fileName.endsWith(".css")) continue;
        file.source = String(file.source).replaceAll(/(?<=[{};,])&(?: |(?=[>+]))/g, "");
      }
    },
  };
}

/** Custom properties get short names, but for those that modules set. */
function withShortProperties() {
  const name = /(?<![\w-])--[a-z][\w-]*/g;
  return {
    name: "with-short-properties",
    enforce: /** @type {const} */ ("post"),
    /** @param {unknown} _ @param {Record<string, import("vite").Rolldown.OutputAsset | import("vite").Rolldown.OutputChunk>} bundle */
    generateBundle(_, bundle) {
      const files = Object.values(bundle);
      const kept = new Set(files.flatMap((file) => (file.type === "chunk" ? (file.code.match(name) ?? []) : [])));
      for (const file of files) {
        if (file.type !== "asset" || !file.fileName.endsWith(".css")) continue;
        /** @type {Map<string, string>} */
        const short = new Map([...kept].map((each) => [each, each]));
        let next = 0;
        file.source = String(file.source).replaceAll(name, (found) => {
          while (!short.has(found)) {
            const candidate = `--${(next++).toString(36)}`;
            if (!kept.has(candidate)) short.set(found, candidate);
          }
          return short.get(found) ?? found;
        });
      }
    },
  };
}

/** The first group that a module belongs to: the modules of job.ts and more.ts. Each file compresses by itself, so there are few. */
const GROUPS = [
  ["job", /\/src\/(?:job\.|views\/job[/.]|ui\/(?:json-(?!model)|schema-|sending)|overlays\/enqueue)/],
  [
    "more",
    /\/src\/(?:more\.|(?:views|overlays)\/(?!overview|jobs[/.]|failures\/placeholders)|ui\/(?:sign-in|toggle)\.)/,
  ],
  ["main", /\/src\/|\/node_modules\/preact|preload-helper|rolldown.runtime/],
];

export default defineConfig({
  root: import.meta.dirname,
  base: "./",
  plugins: [withoutUnused(), withoutPreload(), withInlined(), withoutAmpersands(), withShortProperties()],
  oxc: {
    // Children as arguments of `h` are shorter than as a property.
    jsx: { runtime: "classic", pragma: "h", pragmaFrag: "Fragment" },
    jsxInject: 'import { h, Fragment } from "preact"',
  },
  resolve: {
    alias: [
      { find: "#client", replacement: join(core, "admin/contract/client.ts") },
      // The source of the core imports its modules by the names of their outputs.
      { find: /^(\.{1,2}\/.*)\.js$/, replacement: "$1" },
    ],
  },
  build: {
    outDir: "dist/site",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    manifest: true,
    reportCompressedSize: false,
    // All of them have light-dark(), which halves the sheet.
    cssTarget: ["chrome123", "firefox121", "safari17.5"],
    rolldownOptions: {
      // Of the core, only what is used.
      treeshake: { moduleSideEffects: (id) => !id.startsWith(core), propertyReadSideEffects: false },
      input: { main: "src/main.tsx", job: "src/job.ts", more: "src/more.ts" },
      output: {
        // Small chunks compress badly.
        codeSplitting: {
          includeDependenciesRecursively: false,
          groups: GROUPS.map(([name, test], at) => ({ name, test, priority: GROUPS.length - at })),
        },
      },
    },
  },
});
