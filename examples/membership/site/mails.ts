import { escapeHtml } from "./pages/layout.js";
import type { AddressedMessage, Newsletter, Skip, Subscriber, Template, TemplateMessage } from "@holdfast/mail";
import type { Member, Members } from "./members.js";

/** The mails of the site are built when their job runs, so a job has only the id of a member: no address, no text. */
export interface MailTemplates {
  welcome: Template<{ member: string }, AddressedMessage>;
  receipt: Template<{ member: string; cents: number; currency: string }, AddressedMessage>;
}

export function mailTemplates(members: Members, url: string): MailTemplates {
  const toMember = (id: string, build: (member: Member) => Omit<TemplateMessage, "to">): AddressedMessage | Skip => {
    const member = members.byId(id);
    return member === null ? { skip: "the member does not exist" } : { ...build(member), to: member.email };
  };
  return {
    welcome: ({ member }) =>
      toMember(member, ({ name }) => ({
        subject: "Welcome to the Lantern Club",
        textBody: `Hello ${name},\n\ngood to have you here. Choose a membership on your page:\n${url}/account`,
        tag: "welcome",
      })),
    receipt: ({ member, cents, currency }) =>
      toMember(member, ({ name }) => ({
        subject: "Your receipt",
        textBody: `Hello ${name},\n\nthank you for ${amount(cents, currency)}.`,
        tag: "receipt",
      })),
  };
}

function amount(cents: number, currency: string): string {
  return new Intl.NumberFormat("en", { style: "currency", currency }).format(cents / 100);
}

export function unsubscribeUrl(url: string, { unsubscribeKey }: Pick<Member, "unsubscribeKey">): string {
  return `${url}/unsubscribe/${unsubscribeKey}`;
}

/** Builds the newsletter for one subscriber. The preview of the editor page uses it too. */
export const newsletterMail = (
  { subject, textBody }: Newsletter,
  subscriber: Subscriber,
): Omit<TemplateMessage, "to"> => {
  const paragraphs = (textBody ?? "").split(/\n\s*\n/).map((each) => `<p>${escapeHtml(each.trim())}</p>`);
  const link = escapeHtml(subscriber.unsubscribeUrl);
  return {
    subject,
    textBody: `${textBody}\n\n--\nUnsubscribe: ${subscriber.unsubscribeUrl}`,
    htmlBody: [`<h1>${escapeHtml(subject)}</h1>`, ...paragraphs, `<hr><p><a href="${link}">Unsubscribe</a></p>`].join(
      "\n",
    ),
    tag: "newsletter",
  };
};
