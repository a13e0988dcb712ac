import { rejectingCases } from "./rejecting.js";

rejectingCases("SQLite", async () => "sqlite::memory:");
