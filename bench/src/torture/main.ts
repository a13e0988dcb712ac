import { stderrProgress } from "../progress.js";
import { UsageError } from "../usage-error.js";
import { openBed, makeFolder } from "../beds.js";
import { HELP, readOptions } from "./options.js";
import { reportText } from "./report.js";
import { torture } from "./torture.js";

try {
  const options = readOptions(process.argv.slice(2), Date.now());
  if (options === null) console.log(HELP);
  else {
    const folder = makeFolder();
    const bed = await openBed(options.store, folder);
    try {
      const result = await torture(bed, folder, options, stderrProgress());
      console.log(options.json ? JSON.stringify(result, null, 2) : reportText(options.store, result));
      if (result.violations.length > 0) process.exitCode = 1;
    } finally {
      await bed.close();
    }
  }
} catch (error) {
  const usage = error instanceof UsageError;
  console.error(usage ? error.message : error);
  process.exitCode = usage ? 2 : 1;
}
// Set last: stopping our own server would otherwise change the exit code.
process.exit();
