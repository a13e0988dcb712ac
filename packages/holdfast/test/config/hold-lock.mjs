// Acquires a lock, reports that, and never releases it.
import { writeSync } from "node:fs";
import { withLock } from "../../dist/config/lock.js";

await withLock(process.argv[2] ?? "", () => {
  writeSync(1, "held");
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
});
