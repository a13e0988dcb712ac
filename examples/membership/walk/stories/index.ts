import type { Story } from "../scene.js";
import { adminEndpoint, dashboard } from "./admin.js";
import { endOfMembership, otherAccount, roles } from "./discord.js";
import { mailRetries } from "./mail.js";
import { membership, repeatedEvent } from "./membership.js";
import { newsletter, overdueNewsletter } from "./newsletter.js";
import { passwordReset } from "./password-reset.js";
import { noSecrets } from "./secrets.js";
import { signUpStory } from "./sign-up.js";

/** In this order: later stories need what earlier ones did. */
export const STORIES: readonly Story[] = [
  signUpStory,
  passwordReset,
  mailRetries,
  membership,
  repeatedEvent,
  roles,
  otherAccount,
  newsletter,
  overdueNewsletter,
  adminEndpoint,
  dashboard,
  endOfMembership,
  noSecrets,
];
