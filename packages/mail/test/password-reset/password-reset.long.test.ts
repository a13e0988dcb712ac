import { describeDatabases } from "../../../holdfast/test/pack/scene.js";
import { passwordResetTests } from "./password-reset-suite.js";

describeDatabases(passwordResetTests, ["postgres"]);
