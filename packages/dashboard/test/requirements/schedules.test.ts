import { schedulesOn } from "./schedules-suite.js";

schedulesOn([["SQLite", () => "sqlite::memory:"]]);
