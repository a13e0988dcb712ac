import { comparesWithModel } from "./model-scene.js";

comparesWithModel({ shards: 1, runs: 3 });
