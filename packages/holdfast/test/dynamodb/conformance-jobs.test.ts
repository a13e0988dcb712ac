import { conforms } from "./conformance-scene.js";

conforms({ part: "jobs" });
