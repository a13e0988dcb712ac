// Runs the SQL of its argument against a new database file, in the working folder, as the documents say it works.
import Database from "better-sqlite3";
import { holdfast, job } from "holdfast";

const noop = job({ type: "noop", run() {} });
const hf = await holdfast({ store: "sqlite:jobs.db", jobs: [noop] });
await hf.enqueue(noop);
await hf.drain();
await hf.enqueue(noop, {}, { delay: "1h" });
await hf.schedule("hourly", { job: noop, every: "1h" });
await hf.schedules.runNow("hourly");
await hf.close();

const db = new Database("jobs.db");
db.exec(process.argv[2] ?? "");
db.close();
