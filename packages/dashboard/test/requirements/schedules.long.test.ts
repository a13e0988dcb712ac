import { bothStores } from "../scene.js";
import { schedulesOn } from "./schedules-suite.js";

schedulesOn(bothStores().filter(([name]) => name === "PostgreSQL"));
