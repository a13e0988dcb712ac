// What `npm start` runs: the quick start, and then its jobs in the dashboard. In a terminal the dashboard is served until Ctrl-C;
// elsewhere the command that opens it is printed.
import { spawn } from "node:child_process";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const STORE = "sqlite:quickstart.db";

/** @param {string[]} args @returns {Promise<number>} the exit code */
function run(args) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { cwd: root, stdio: "inherit" });
    // Ctrl-C ends the child, and this process after it.
    const ignore = () => {};
    process.on("SIGINT", ignore);
    child.once("error", reject);
    child.once("exit", (code) => {
      process.off("SIGINT", ignore);
      resolve(code ?? 1);
    });
  });
}

process.exitCode = await run([join(root, "examples/quickstart/dist/main.js")]);
if (process.exitCode === 0) {
  if (process.stdout.isTTY) {
    process.exitCode = await run([join(root, "packages/holdfast/dist/bundle/cli.js"), "dashboard", "--store", STORE]);
  } else {
    console.log(`\nTo see these jobs in the dashboard, run: npx holdfast dashboard --store ${STORE}`);
  }
}
