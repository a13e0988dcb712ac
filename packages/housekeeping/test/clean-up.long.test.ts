import { describeDatabases } from "../../holdfast/test/pack/scene.js";
import { cleanUpTests } from "./clean-up-suite.js";

describeDatabases(cleanUpTests, ["postgres"]);
