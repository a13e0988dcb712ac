import { comparesWithModel } from "./model-scene.js";

comparesWithModel({ runs: 5 });
