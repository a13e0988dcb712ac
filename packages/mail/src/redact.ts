/**
 * The paths of jobs with bodies and addresses of mails: `holdfast({ redact })` hides them in reports, spans, the admin API and the
 * dashboard.
 */
export const redact: readonly string[] = Object.freeze([
  "input.to",
  "input.cc",
  "input.bcc",
  "input.replyTo",
  "input.from",
  "input.headers",
  "input.textBody",
  "input.htmlBody",
  "input.data",
  "output.accepted",
  "output.rejected",
]);
