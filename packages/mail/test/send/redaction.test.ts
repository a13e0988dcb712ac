import { mail, redact } from "@holdfast/mail";
import { log } from "@holdfast/mail/log";
import { holdfast } from "holdfast";
import { admin, adminClient } from "holdfast/admin";
import { expect, it, onTestFinished } from "vitest";

it("E-05 redact hides addresses and bodies", async () => {
  const post = mail({
    transport: log({ logger: { info() {} } }),
    from: "hello@club.example",
    templates: { secret: (_data: { secret: string }) => ({ subject: "A link", textBody: "…" }) },
  });
  const hf = await holdfast({ store: "sqlite::memory:", jobs: post.jobs, redact, logger: false });
  onTestFinished(() => hf.close());
  const written = await hf.enqueue(post.send, {
    to: ["ada.secret@example.com"],
    cc: "eve.secret@example.com",
    bcc: "bob.secret@example.com",
    replyTo: "reply.secret@example.com",
    from: "from.secret@example.com",
    headers: { "List-Unsubscribe": "<https://club.example/u?key=a-secret>" },
    subject: "Shown",
    textBody: "a secret",
    htmlBody: "<p>a secret</p>",
  });
  const built = await hf.enqueue(post.send, {
    template: "secret",
    data: { secret: "a secret" },
    to: "ada.secret@example.com",
    tag: "shown",
  });
  await hf.drain();
  const { token } = await hf.tokens.create({ name: "viewer", role: "viewer" });
  const api = admin(hf);
  onTestFinished(() => api.close());
  const client = adminClient({ fetch: (request) => api.fetch(request), token });
  for (const { id } of [written, built]) {
    expect(JSON.stringify(await hf.get(id))).toContain("secret@example.com");
    const shown = await client.jobs.get({ id });
    expect(shown.state).toBe("completed");
    expect(JSON.stringify(shown).toLowerCase()).toContain("shown");
    expect(JSON.stringify({ ...shown, input: { ...(shown.input as object), template: null } })).not.toContain("secret");
  }
});
