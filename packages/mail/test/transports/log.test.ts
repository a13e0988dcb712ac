import { log } from "@holdfast/mail/log";
import { expect, it } from "vitest";
import { recordingLogger } from "../scene.js";
import { context, message } from "./message.js";

it("E-05 logs mails instead of sending them", async () => {
  const { logger, lines } = recordingLogger();
  const sent = await log({ logger }).send(message({ cc: [{ name: "Bob", address: "bob@example.com" }] }), context());
  expect(sent).toEqual({ id: "key-1", accepted: ["ada@example.com", "bob@example.com"], rejected: [] });
  expect(lines).toEqual([
    {
      level: "info",
      message: "mail (not sent)",
      fields: {
        from: "Club <hello@club.example>",
        to: "ada@example.com, Bob <bob@example.com>",
        subject: "Welcome",
        body: "Good to see you.",
      },
    },
  ]);
});
