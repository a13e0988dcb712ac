/** Hides parts of payloads by their paths, in whatever leaves the process: reports, spans, the API, logs. */
export { REDACTED, redactor, type Redactor } from "../redact.js";
