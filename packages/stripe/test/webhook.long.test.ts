import { describeDatabases } from "../../holdfast/test/pack/scene.js";
import { webhookTests } from "./webhook-suite.js";

describeDatabases(webhookTests, ["postgres"]);
