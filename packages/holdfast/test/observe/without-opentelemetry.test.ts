import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { copyOfThePackage, folderWithout } from "../without-driver.js";

const base = folderWithout("@opentelemetry/api");

describe("without @opentelemetry/api", () => {
  it.skipIf(base === undefined)("only openTelemetry fails, and names the package", () => {
    const folder = copyOfThePackage(base ?? "");
    writeFileSync(
      join(folder, "main.js"),
      `import { Metrics, redactor } from "./dist/index.js";
      import { openTelemetry } from "./dist/opentelemetry.js";
      import { sentry } from "./dist/sentry.js";
      console.log(typeof Metrics, typeof redactor([]), typeof sentry({ withScope() {}, captureException() {} }).report);
      try {
        openTelemetry();
      } catch ({ code, message }) {
        console.log(code, message);
      }`,
    );
    const { stdout, stderr } = spawnSync(process.execPath, [join(folder, "main.js")], { encoding: "utf8" });
    expect(`${stdout}${stderr}`).toBe(
      "function function function\nDRIVER_MISSING the @opentelemetry/api package could not be loaded; install it with: npm install @opentelemetry/api\n",
    );
  });
});
