import { describe } from "vitest";
import { databases as makeDatabases } from "./databases.js";
import { runsFromTopToBottom } from "./quick-start-suite.js";

const databases = makeDatabases();

describe("the quick start on PostgreSQL, by one variable", () => {
  runsFromTopToBottom(() => databases.empty());
});
