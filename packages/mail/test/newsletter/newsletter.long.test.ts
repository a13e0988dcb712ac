import { describeDatabases } from "../../../holdfast/test/pack/scene.js";
import { newsletterTests } from "./newsletter-suite.js";

describeDatabases(newsletterTests, ["postgres"]);
