import { bothStores } from "../scene.js";
import { jobsOn } from "./jobs-suite.js";

jobsOn(bothStores().filter(([name]) => name === "PostgreSQL"));
