// A vitest reporter that writes the number of passed and failed tests to the file in TEST_COUNTS_FILE.
import { writeFileSync } from "node:fs";

/** @typedef {import("vitest/node").Reporter} Reporter */

/** @implements {Reporter} */
export default class CountTests {
  /**
   * @param {ReadonlyArray<import("vitest/node").TestModule>} modules
   * @param {ReadonlyArray<unknown>} unhandledErrors
   */
  onTestRunEnd(modules, unhandledErrors) {
    const file = process.env["TEST_COUNTS_FILE"];
    if (file === undefined) return;
    let passed = 0;
    let failed = unhandledErrors.length;
    for (const module of modules) {
      const failedBefore = failed;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === "passed") passed += 1;
        if (state === "failed") failed += 1;
      }
      // A file that could not be loaded, or whose hooks failed, has no failed test.
      if (!module.ok() && failed === failedBefore) failed += 1;
    }
    writeFileSync(file, JSON.stringify({ passed, failed }));
  }
}
