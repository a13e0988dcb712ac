/** Transactional mail, password resets and newsletters as jobs of Holdfast. */
export { mail } from "./mail.js";
export type { Mail, MailOptions, MailPack, OnTemplateFailed, SendOutput } from "./mail.js";
export type { Message, Recipients } from "./message.js";
export type {
  AddressedMessage,
  SendInput,
  Skip,
  Template,
  TemplateContext,
  TemplateInput,
  TemplateMessage,
  Templates,
} from "./templates.js";
export type { MailTransport, OutgoingMessage, SendContext, SentMail } from "./transport.js";
export type { Address } from "./address.js";
export type { StorageOptions, WallClock } from "./options.js";
export { redact } from "./redact.js";
export * from "./password-reset/index.js";
export * from "./newsletter/index.js";
