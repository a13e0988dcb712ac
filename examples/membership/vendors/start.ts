import { smtpInbox, type SmtpInbox } from "@holdfast/mail/testing";
import type { SiteConfig } from "../site/config.js";
import { startDiscord, type DiscordServer } from "./discord.js";
import { startInboxPage } from "./inbox-page.js";
import { startStripe, type StripeServer } from "./stripe.js";

/** The services that the site uses, on this machine: each speaks the protocol of the real one. */
export interface Vendors {
  readonly inbox: SmtpInbox;
  /** Where the mails can be read. */
  readonly inboxUrl: string;
  readonly stripe: StripeServer;
  readonly discord: DiscordServer;
  /** What the site needs to use them. */
  readonly config: Pick<SiteConfig, "smtpUrl" | "stripe" | "discord">;
  close(): Promise<void>;
}

export async function startVendors(): Promise<Vendors> {
  const inbox = await smtpInbox();
  const [inboxPage, stripe, discord] = await Promise.all([startInboxPage(inbox), startStripe(), startDiscord()]);
  return {
    inbox,
    inboxUrl: inboxPage.url,
    stripe,
    discord,
    config: { smtpUrl: inbox.url, stripe: stripe.config, discord: discord.config },
    async close() {
      await Promise.all([inboxPage.close(), stripe.close(), discord.close()]);
      await inbox.close();
    },
  };
}
