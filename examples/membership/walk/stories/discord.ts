import { check, ms, settled, signUp, until, type Story } from "../scene.js";
import { join } from "./membership.js";

const ADA = "500100";

export const roles: Story = {
  title: "Discord roles follow memberships, within Discord's limits",
  async run(scene) {
    const { vendors, api, ada, person } = scene;
    const patrons = await Promise.all(
      Array.from({ length: 3 }, async (_, at) => {
        const patron = person(`Patron${at + 1}`);
        await signUp(patron);
        await join(scene, patron, "patron");
        return { ...patron, discord: `60010${at}` };
      }),
    );
    const all = [{ ...ada, discord: ADA }, ...patrons];
    for (const { discord } of all) vendors.discord.join(discord);
    await settled(scene);
    // All at once: more than Discord allows.
    await api.queues.pause({ queue: "default" });
    const times = await Promise.all(
      all.map(async ({ browser, discord, name }) => {
        const page = await browser.send("/account/discord", { discordId: discord });
        check(page.url.includes("done=discord"), `${name} could not link a Discord account.`);
        return page.ms;
      }),
    );
    const start = performance.now();
    await api.queues.resume({ queue: "default" });
    for (const { discord, name } of all) {
      const wanted = discord === ADA ? "reader" : "patron";
      await until(() => vendors.discord.rolesOf(discord).includes(wanted), `${name} did not get the role ${wanted}.`);
    }
    const took = performance.now() - start;
    const { refused } = vendors.discord;
    check(refused > 0, "Discord refused no call, so its limits are not proved.");
    check(
      all.every(
        ({ discord }) =>
          vendors.discord.rolesOf(discord).join() === (discord === ADA ? "moderator,reader" : "moderator,patron"),
      ),
      "A role that the site does not manage was changed.",
    );
    return [
      `${all.length} members linked their accounts at once, in at most ${ms(Math.max(...times))}. Discord refused ${refused} calls with 429.`,
      `The jobs came back when Discord said so: all have their roles after ${ms(took)}, and keep their other roles.`,
    ];
  },
};

export const otherAccount: Story = {
  title: "Ada changes her Discord account",
  async run(scene) {
    const { vendors, ada } = scene;
    const other = "500200";
    const has = (account: string) => vendors.discord.rolesOf(account).includes("reader");
    const link = (discordId: string) => ada.browser.send("/account/discord", { discordId });
    await link(other);
    await until(() => !has(ADA), "The former account keeps the role.");
    await settled(scene);
    vendors.discord.join(other);
    check(!has(other), "An account that is not in the server has a role.");
    const page = await ada.browser.send("/account/discord/roles");
    check(page.url.includes("done=roles"), "The form that updates roles was not accepted.");
    await until(() => has(other), "An account that joined later did not get the role.");
    await link(ADA);
    await until(() => has(ADA) && !has(other), "The role did not move back.");
    return [
      "The former account lost the role. The new one was not in the server, and got it when she joined and asked for it.",
      "She changed back: one membership gives the role to one account.",
    ];
  },
};

export const endOfMembership: Story = {
  title: "Ada ends her membership",
  async run({ site, vendors, ada }) {
    const start = performance.now();
    const page = await ada.browser.send("/membership/end");
    check(page.url.includes("done=ending"), "The form that ends a membership was not accepted.");
    await until(() => vendors.discord.rolesOf(ADA).join() === "moderator", "Ada still has her role.");
    const took = performance.now() - start;
    const id = site.members.byEmail(ada.email)?.id ?? "";
    check(site.memberships.of(id)?.status === "canceled", "The site does not show that the membership ended.");
    return [`One job ended it at Stripe, Stripe's event changed the site, and her role is gone: ${ms(took)} in all.`];
  },
};
