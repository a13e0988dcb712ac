import { check, type Story } from "../scene.js";
import { tablesWith } from "../stored.js";

export const noSecrets: Story = {
  title: "Nothing secret is stored",
  run({ site, vendors, ada, editor, secrets }) {
    const { stripe, discord } = vendors.config;
    const all = [
      ...secrets,
      ...ada.browser.secrets,
      ...editor.secrets,
      stripe.secretKey,
      stripe.webhookSecret,
      discord.token,
    ];
    const tables = tablesWith(site.db, all);
    check(tables.length === 0, `A secret is in ${tables.join(", ")}.`);
    return Promise.resolve([
      `None of ${all.length} passwords, tokens, cookies and keys is in any table, jobs included.`,
    ]);
  },
};
