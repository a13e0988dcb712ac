import { conforms } from "./conformance-scene.js";

conforms("schedules");
