import { describeDatabases } from "../../holdfast/test/pack/scene.js";
import { latestTests } from "./latest-suite.js";

describeDatabases(latestTests, ["postgres"]);
