// What `npm run example -- <name>` runs: one of the applications in examples/. Further arguments go to the application: --stay
// keeps it running after its walk.
import { spawn } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

const folder = join(import.meta.dirname, "../examples");
const names = readdirSync(folder).filter((name) => existsSync(join(folder, name, "dist/main.js")));
const [name = "", ...options] = process.argv.slice(2);

if (names.includes(name)) {
  const child = spawn(process.execPath, [join(folder, name, "dist/main.js"), ...options], { stdio: "inherit" });
  // Ctrl-C reaches the application too, which then ends in order.
  process.on("SIGINT", () => {});
  process.on("SIGTERM", () => child.kill());
  child.once("exit", (code) => {
    process.exitCode = code ?? 1;
  });
} else {
  console.error(name === "" ? "Name an example:" : `There is no example ${JSON.stringify(name)}. Choose one of these:`);
  for (const each of names) console.error(`  npm run example -- ${each}`);
  process.exitCode = 2;
}
