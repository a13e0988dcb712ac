import { jobsOn } from "./jobs-suite.js";

jobsOn([["SQLite", () => "sqlite::memory:"]]);
