import type { Plan } from "../../site/config.js";
import { check, ms, until, type Person, type Scene, type Story } from "../scene.js";
import { tablesWith } from "../stored.js";

/** Chooses a plan and pays, and returns once the site knows of it. */
export async function join({ site }: Scene, { name, email, browser }: Person, plan: Plan): Promise<number> {
  const payment = await browser.send("/membership/join", { plan });
  check(payment.status === 200 && payment.url.includes("/pay/"), `${name} does not see the payment page.`);
  const start = performance.now();
  const back = await browser.send(payment.url);
  check(back.url.includes("/account"), `${name} did not come back from the payment page.`);
  const id = site.members.byEmail(email)?.id ?? "";
  await until(() => site.memberships.entitlementsOf(id).includes(plan), `The payment of ${name} had no effect.`);
  return performance.now() - start;
}

export const membership: Story = {
  title: "Ada becomes a reader",
  async run(scene) {
    const { vendors, ada } = scene;
    const took = await join(scene, ada, "reader");
    const receipt = await vendors.inbox.next(({ to, subject }) => to.includes(ada.email) && subject === "Your receipt");
    check(receipt.text.includes("€5.00"), "The receipt does not name the amount.");
    const page = await ada.browser.open("/account");
    check(page.text.includes("End the membership"), "Her page does not show the membership.");
    const sent = await until(() => vendors.stripe.sent.length >= 2 && vendors.stripe.sent, "Stripe got no response.");
    check(
      sent.every(({ delivered }) => delivered.status === 200),
      "An event of Stripe was not accepted.",
    );
    const slowest = Math.max(...sent.map(({ delivered }) => delivered.ms));
    return [
      `Her membership began ${ms(took)} after the payment, and her receipt arrived. Each event got its 200 in ${ms(slowest)} or less.`,
    ];
  },
};

export const repeatedEvent: Story = {
  title: "Stripe repeats an event, and someone forges one",
  async run({ site, vendors, api, ada }) {
    const { stripe, inbox } = vendors;
    const paid = stripe.sent.find(({ event }) => event.type === "invoice.paid");
    check(paid !== undefined, "Stripe sent no invoice.");
    const repeats = await Promise.all(Array.from({ length: 20 }, () => stripe.send(paid.event)));
    check(
      repeats.every(({ status }) => status === 200),
      "A repeated event was not accepted.",
    );
    const forged = await stripe.send({ ...paid.event, id: "evt_forged" }, { secret: "whsec_of_someone_else" });
    check(forged.status === 400, `A forged event was accepted with status ${forged.status}.`);
    check(tablesWith(site.db, ["evt_forged"]).length === 0, "A forged event is stored.");

    const type = ["stripe.webhook.process"];
    await until(async () => (await api.jobs.count({ type, state: ["completed"] })).count === 2, "Events wait.");
    const { count } = await api.jobs.count({ type });
    check(count === 2, `There are ${count} jobs for 2 events.`);
    const payments = site.memberships.countPayments(site.members.byEmail(ada.email)?.id ?? "");
    const receipts = inbox.mails.filter(({ to, subject }) => to.includes(ada.email) && subject === "Your receipt");
    check(payments === 1 && receipts.length === 1, `There are ${payments} payments and ${receipts.length} receipts.`);
    return [
      "The same event 20 times at once: 20 times 200, one job, one payment, one receipt.",
      "A forged event: 400, and nothing is stored.",
    ];
  },
};
