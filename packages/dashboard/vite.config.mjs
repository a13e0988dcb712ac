import { join } from "node:path";
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

/** The first group that a module belongs to. What only one group uses belongs to it: each export of another one is named twice. */
const GROUPS = [
  [
    "more",
    /\/src\/(?:(?:views|overlays)\/(?!overview|jobs?[/.]|enqueue|failures\/placeholders)|ui\/(?:search|sign-in|toggle)\.)/,
  ],
  ["jobs", /\/src\/views\/jobs[/.]/],
  ["job", /\/src\/(?:views\/job[/.]|ui\/(?:json-|schema-|sending)|overlays\/enqueue)/],
  ["overview", /\/src\/(?:views\/overview[/.]|ui\/time-(?:chart|scale))/],
  ["main", /\/src\/(?!views\/overview|overlays)|\/node_modules\/preact|preload-helper|rolldown.runtime/],
];

export default defineConfig({
  root: import.meta.dirname,
  base: "./",
  plugins: [withoutUnused(), withoutPreload(), withoutAmpersands()],
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
      input: { main: "src/main.tsx" },
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
