import { describeDatabases } from "../../holdfast/test/pack/scene.js";
import { replayTests } from "./replay-suite.js";

describeDatabases(replayTests, ["postgres"]);
