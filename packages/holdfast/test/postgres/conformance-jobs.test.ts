import { conforms } from "./conformance-scene.js";

conforms("jobs");
