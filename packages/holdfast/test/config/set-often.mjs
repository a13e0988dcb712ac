// Sets one key repeatedly, and reports values lost to concurrent changes of the file.
import { readConfig, setKey } from "../../dist/config/index.js";

const [cwd = "", key = "", times = ""] = process.argv.slice(2);
const place = { cwd, env: {} };
const lost = [];
for (let value = 1; value <= Number(times); value++) {
  await setKey(place, /** @type {"jobs.grace_s"} */ (key), value);
  if (readConfig(place).values[/** @type {"jobs.grace_s"} */ (key)] !== value) lost.push(value);
}
process.stdout.write(JSON.stringify(lost));
