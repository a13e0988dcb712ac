import { discord, redact as discordRedact, type DiscordPack } from "@holdfast/discord";
import { mail, newsletter, passwordReset, redact as mailRedact } from "@holdfast/mail";
import type { Mail, NewsletterPack, PasswordReset } from "@holdfast/mail";
import { smtp } from "@holdfast/mail/smtp";
import { callStripe, redact as stripeRedact, type StripePack } from "@holdfast/stripe";
import { holdfast, job, type Holdfast, type JobType } from "holdfast";
import Stripe from "stripe";
import { z } from "zod";
import type { SiteConfig } from "./config.js";
import { openDatabase, type Db } from "./database.js";
import { mailTemplates, newsletterMail, unsubscribeUrl, type MailTemplates } from "./mails.js";
import { Members } from "./members.js";
import { isActive, Memberships } from "./memberships.js";
import { openPayments } from "./payments.js";
import { Sessions } from "./sessions.js";

/** The output of the job `membership.end`. */
export type EndOutput = { ended: string } | { skipped: true; reason: string };

/** What the routes of the site use. */
export interface Site {
  /** Where the site is, without a slash at the end. */
  readonly url: string;
  readonly config: SiteConfig;
  readonly db: Db;
  readonly members: Members;
  readonly sessions: Sessions;
  readonly memberships: Memberships;
  /** Enqueues jobs, and runs them. */
  readonly hf: Holdfast;
  readonly post: Mail<MailTemplates>;
  readonly reset: PasswordReset;
  readonly news: NewsletterPack;
  readonly payments: StripePack;
  readonly roles: DiscordPack;
  /** The job that ends a subscription at Stripe. */
  readonly endMembership: JobType<{ member: string }, EndOutput>;
  /** Stripe's client, for what a visitor waits for: the address of a payment page. */
  readonly stripe: Stripe;
  close(): Promise<void>;
}

/** Opens the database, and the jobs with their worker. */
export async function openSite(config: SiteConfig, url: string): Promise<Site> {
  const db = openDatabase(config.file);
  const members = new Members(db);
  const memberships = new Memberships(db);
  const sdk = new Stripe(config.stripe.secretKey, {
    ...config.stripe.api,
    telemetry: false,
    // Jobs are retried by the queue, and a visitor does not wait for a second request.
    maxNetworkRetries: 0,
    timeout: 20_000,
  });

  const post = mail({
    transport: smtp(config.smtpUrl),
    from: "Lantern Club <hello@lantern.example>",
    templates: mailTemplates(members, url),
  });
  const reset = passwordReset({
    mail: post,
    db,
    users: members,
    link: (token) => `${url}/password/reset?token=${token}`,
  });
  const news = newsletter({
    mail: post,
    db,
    message: (letter, subscriber) =>
      // The mails of a run may wait for a while.
      members.byId(subscriber.id)?.newsletter === true
        ? newsletterMail(letter, subscriber)
        : { skip: "unsubscribed in the meantime" },
    countSubscribers: () => members.countSubscribers(),
    *subscribers() {
      for (const member of members.subscribers()) {
        yield { id: member.id, email: member.email, unsubscribeUrl: unsubscribeUrl(url, member) };
      }
    },
  });
  const roles = discord({
    ...config.discord,
    entitlements: (member) => memberships.entitlementsOf(member),
    members: (member) => members.byId(member)?.discordId ?? null,
    users: (account) => members.byDiscord(account)?.id ?? null,
  });
  // For members who have joined the Discord server since they linked their account.
  const syncEveryone = job({
    type: "discord.sync_everyone",
    async run({ hf: own, signal }) {
      for (const member of members.linkedToDiscord()) {
        signal.throwIfAborted();
        await roles.sync(own, member);
      }
    },
  });
  const payments = openPayments({ config: config.stripe, sdk, db, memberships, post, roles });
  const endMembership = job({
    type: "membership.end",
    input: z.strictObject({ member: z.string() }),
    async run({ input, idempotencyKey, signal }): Promise<EndOutput> {
      const membership = memberships.of(input.member);
      if (membership === null || !isActive(membership)) return { skipped: true, reason: "no membership" };
      const { subscriptionId: id } = membership;
      const ended = await callStripe(() => sdk.subscriptions.cancel(id, {}, { idempotencyKey }), {
        action: "cancel the subscription",
        signal,
      });
      return ended === null ? { skipped: true, reason: "the subscription has ended" } : { ended: id };
    },
  });

  const hf = await holdfast({
    store: `sqlite:${config.file}`,
    jobs: [...post.jobs, ...reset.jobs, ...news.jobs, ...payments.jobs, ...roles.jobs, endMembership, syncEveryone],
    redact: [...mailRedact, ...stripeRedact, ...discordRedact],
    ...(config.logger !== undefined && { logger: config.logger }),
  });
  for (const pack of [post, reset, news, payments, roles]) await pack.install(hf);
  await hf.schedule("discord_roles_daily", { job: syncEveryone, cron: "30 4 * * *" });
  hf.work({ concurrency: 8 });

  return {
    url,
    config,
    db,
    members,
    memberships,
    hf,
    post,
    reset,
    news,
    payments,
    roles,
    endMembership,
    sessions: new Sessions(db),
    stripe: sdk,
    async close() {
      await hf.close();
      await post.close();
      db.close();
    },
  };
}
