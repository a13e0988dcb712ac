// Takes a lock, says so and never gives it back.
import { writeSync } from "node:fs";
import { withLock } from "../../dist/config/lock.js";

await withLock(process.argv[2] ?? "", () => {
  writeSync(1, "held");
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
});
