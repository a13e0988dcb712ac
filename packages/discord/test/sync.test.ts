import { describeDatabases } from "../../holdfast/test/pack/scene.js";
import { syncTests } from "./sync-suite.js";

describeDatabases(syncTests, ["sqlite"]);
