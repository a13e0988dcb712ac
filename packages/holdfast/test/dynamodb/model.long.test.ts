import { comparesWithModel } from "./model-scene.js";

comparesWithModel({ shards: 1, runs: 30 });
comparesWithModel({ shards: 3, runs: 30 });
