import { conforms } from "./conformance-scene.js";

conforms({ shards: 4, many: 200 });
