export { newsletter } from "./newsletter.js";
export type { NewsletterContent, NewsletterOptions, NewsletterPack, SendRunReport, SendTime } from "./newsletter.js";
export {
  NewsletterNotFoundError,
  NewsletterSentError,
  SendRunNotFoundError,
  SendRunNotScheduledError,
} from "./errors.js";
export type { DispatchedRun, DispatchOptions } from "./dispatch-due.js";
export type { NewsletterMessage, Subscriber } from "./mails.js";
export type {
  Delivery,
  DeliveryCounts,
  DeliveryStatus,
  Newsletter,
  NewsletterRecords,
  NewSendRun,
  SendRun,
  SendRunStatus,
} from "./records.js";
export type { SendRunInput, SendRunOutput } from "./send-run.js";
