/** For tests of applications that send mails. */
export { smtpInbox } from "./smtp-inbox.js";
export type { FailOptions, ReceivedMail, SmtpInbox, WaitOptions } from "./smtp-inbox.js";
