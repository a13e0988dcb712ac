/** Redacts parts of payloads in everything that leaves the process: reports, spans, API responses, logs. */
export { REDACTED, redactor, type Redactor } from "../redact.js";
