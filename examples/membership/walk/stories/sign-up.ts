import { check, ms, signUp, type Story } from "../scene.js";

export const signUpStory: Story = {
  title: "Ada joins the club",
  async run({ site, vendors, ada }) {
    const took = await signUp(ada);
    const start = performance.now();
    await vendors.inbox.next(({ to, subject }) => to.includes(ada.email) && subject.startsWith("Welcome"));
    const waited = performance.now() - start;

    const id = site.members.byEmail(ada.email)?.id ?? "";
    check(site.members.passwordOf(id)?.startsWith("scrypt$") === true, "The password is not stored as a scrypt hash.");
    const forged = await ada.browser.send("/account/newsletter", {}, { origin: "https://evil.example" });
    check(forged.status === 403, `A form of another site was accepted with status ${forged.status}.`);
    const refused = await ada.browser.send("/sign-in", { email: ada.email, password: "a wrong password" });
    check(refused.status === 401, "A wrong password was accepted.");
    return [
      `Signed up in ${ms(took)}, with a scrypt hash of her password. Her welcome mail arrived ${ms(waited)} later.`,
      "A form that another site sent with her cookie was refused with 403, a wrong password with 401.",
    ];
  },
};
