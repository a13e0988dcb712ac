import type { Message } from "../message.js";
import type { Skip, Template, TemplateContext, TemplateMessage } from "../templates.js";
import type { Newsletter, NewsletterRecords } from "./records.js";

/** A subscriber of a newsletter. */
export interface Subscriber {
  readonly id: string;
  readonly email: string;
  /** Where the subscriber unsubscribes. It must accept `POST` requests with `List-Unsubscribe=One-Click` (RFC 8058). */
  readonly unsubscribeUrl: string;
}

/** Builds the mail to one subscriber. */
export type NewsletterMessage = (
  newsletter: Newsletter,
  subscriber: Subscriber,
  context: Pick<TemplateContext, "signal">,
) => Omit<TemplateMessage, "to"> | Skip | Promise<Omit<TemplateMessage, "to"> | Skip>;

/** The data of a job: the bodies are not stored with each of its 100,000 jobs. */
export interface MailData {
  run: string;
  subscriber: string;
  email: string;
  unsubscribeUrl: string;
}

/** How many newsletters a process keeps in memory while it sends them. */
const KEPT = 10;

/** The template that builds the mail of a run to a subscriber, and records whether it was sent. */
export function newsletterTemplate(
  records: NewsletterRecords,
  message: NewsletterMessage,
  from: string | undefined,
): Template<MailData> {
  const known = new Map<string, Newsletter>();
  // A newsletter does not change while it is sent.
  async function newsletterOf(run: string): Promise<Newsletter | null> {
    const kept = known.get(run);
    if (kept !== undefined) return kept;
    const id = (await records.run(run))?.newsletterId;
    const newsletter = id === undefined ? null : await records.newsletter(id);
    if (newsletter === null) return null;
    known.set(run, newsletter);
    const [oldest] = known.keys();
    if (known.size > KEPT && oldest !== undefined) known.delete(oldest);
    return newsletter;
  }

  return async ({ run, subscriber: id, email, unsubscribeUrl }, { jobId, signal }) => {
    const newsletter = await newsletterOf(run);
    if (newsletter === null) return { skip: "the newsletter does not exist" };
    if (await records.isSent(run, id)) return { skip: "the mail was sent by an earlier attempt" };
    const built = await message(newsletter, { id, email, unsubscribeUrl }, { signal });
    if ("skip" in built) {
      await records.setDelivery(run, { subscriber: id, jobId, status: "skipped" });
      return built;
    }
    return {
      ...(from !== undefined && { from }),
      ...built,
      to: email,
      headers: {
        // In ASCII: other characters would be encoded as in a subject, which mail programs do not read as a URL.
        "List-Unsubscribe": `<${new URL(unsubscribeUrl).href}>`,
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        ...built.headers,
      },
      async onSent(sent) {
        await records.setDelivery(run, { subscriber: id, jobId, status: "sent" });
        await built.onSent?.(sent);
      },
    };
  };
}

const PLACEHOLDER = /\{\{\s*unsubscribeUrl\s*\}\}/g;

/** The newsletter with `{{unsubscribeUrl}}` replaced in its bodies. */
export function defaultMessage(
  { subject, textBody, htmlBody }: Newsletter,
  { unsubscribeUrl }: Subscriber,
): Omit<Message, "to"> {
  return {
    subject,
    ...(textBody !== null && { textBody: textBody.replaceAll(PLACEHOLDER, () => unsubscribeUrl) }),
    ...(htmlBody !== null && { htmlBody: htmlBody.replaceAll(PLACEHOLDER, () => escapeHtml(unsubscribeUrl)) }),
    tag: "newsletter",
  };
}

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ESCAPES[character] ?? character);
}
