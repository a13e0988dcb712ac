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

/** The first group that a module belongs to. Modules of none, such as the library of charts, keep chunks of their own. */
const GROUPS = [
  ["more", /\/src\/(?:views|overlays)\/(?!overview|jobs?[/.]|enqueue|failures\/placeholders)/],
  ["jobs", /\/src\/views\/jobs[/.]/],
  ["job", /\/src\/(?:views\/job[/.]|ui\/(?:json-|schema-|field)|overlays\/enqueue)/],
  ["overview", /\/src\/views\/overview(?:\.tsx$|\/(?!plot))/],
  ["main", /\/src\/(?!views\/overview|overlays)|\/node_modules\/@?preact|preload-helper|rolldown.runtime/],
];

export default defineConfig({
  root: import.meta.dirname,
  base: "./",
  plugins: [withoutUnused()],
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
      treeshake: { moduleSideEffects: (id) => !id.startsWith(core) },
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
