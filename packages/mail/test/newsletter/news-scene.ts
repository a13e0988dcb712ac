import {
  mail,
  newsletter,
  type Mail,
  type MailTransport,
  type NewsletterOptions,
  type NewsletterPack,
  type SendRun,
  type Subscriber,
} from "@holdfast/mail";
import { smtp } from "@holdfast/mail/smtp";
import type { SmtpInbox } from "@holdfast/mail/testing";
import { fakeClock, type FakeClock } from "holdfast/testing";
import { onTestFinished } from "vitest";
import type { PackDatabase } from "../../../holdfast/test/pack/scene.js";
import { openClient, openInbox, type Client } from "../scene.js";

export const START = new Date("2026-05-01T07:00:00Z");
export const EIGHT = new Date("2026-05-01T08:00:00Z");
export const NINE = new Date("2026-05-01T09:00:00Z");

export const CONTENT = {
  subject: "Spring",
  textBody: "Flowers. Unsubscribe: {{unsubscribeUrl}}",
  htmlBody: '<p>Flowers. <a href="{{ unsubscribeUrl }}">Unsubscribe</a></p>',
};

export function subscriber(n: number): Subscriber {
  return { id: `s${n}`, email: `reader${n}@example.com`, unsubscribeUrl: `https://club.example/u?id=${n}&list=spring` };
}

export interface NewsScene extends Client {
  inbox: SmtpInbox;
  post: Mail;
  news: NewsletterPack;
  /** Creates a newsletter and schedules it. */
  schedule: (at?: Date) => Promise<SendRun>;
  /** The addresses that got a mail, sorted. */
  reached: () => string[];
}

/** A newsletter with a few subscribers, at seven o'clock. */
export async function newsScene(
  given: PackDatabase,
  {
    readers = 3,
    clock = fakeClock(START),
    transport,
    ...options
  }: Partial<NewsletterOptions> & { readers?: number; clock?: FakeClock; transport?: MailTransport } = {},
): Promise<NewsScene> {
  const inbox = await openInbox();
  const post = mail({ transport: transport ?? smtp(inbox.url), from: "Club <hello@club.example>" });
  onTestFinished(() => post.close());
  const news = newsletter({
    mail: post,
    ...(options.records === undefined && { db: given.db }),
    subscribers: () => Array.from({ length: readers }, (_, n) => subscriber(n)),
    clock,
    ...options,
  });
  const client = await openClient(given, { jobs: [...post.jobs, ...news.jobs] }, clock);
  await news.install(client.hf);
  return {
    ...client,
    inbox,
    post,
    news,
    async schedule(at = EIGHT) {
      const { id } = await news.create(CONTENT);
      return news.schedule(client.hf, id, { at });
    },
    reached: () => inbox.mails.flatMap(({ to }) => to).toSorted((a, b) => a.localeCompare(b, "en", { numeric: true })),
  };
}

/** The addresses of so many subscribers. */
export function everyone(count: number): string[] {
  return Array.from({ length: count }, (_, n) => subscriber(n).email);
}

/** A transport that only counts, for many mails. */
export function countingTransport(): MailTransport & { sent: string[] } {
  const sent: string[] = [];
  return {
    sent,
    async send({ to }, { idempotencyKey }) {
      const accepted = to.map(({ address }) => address);
      sent.push(...accepted);
      return { id: idempotencyKey, accepted, rejected: [] };
    },
  };
}
