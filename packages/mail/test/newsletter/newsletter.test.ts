import { mail, newsletter } from "@holdfast/mail";
import { describe, expect, it } from "vitest";
import { describeDatabases } from "../../../holdfast/test/pack/scene.js";
import { countingTransport, START } from "./news-scene.js";
import { newsletterTests } from "./newsletter-suite.js";

describeDatabases(newsletterTests, ["sqlite"]);

describe("newsletter()", () => {
  it("takes the prefix of its mail pack", async () => {
    const post = mail({ transport: countingTransport(), from: "hello@club.example", prefix: "club." });
    const news = newsletter({ mail: post, db: { query() {}, connect() {} } as never, subscribers: () => [] });
    expect([post.send.type, news.send.type]).toEqual(["club.email.send", "club.newsletter.send"]);
  });

  const base = () => ({
    mail: mail({ transport: countingTransport(), from: "hello@club.example" }),
    subscribers: () => [],
  });
  const db = { query() {}, connect() {} } as never;

  it.each([
    ["db", {}],
    ["mail", { db, mail: null }],
    ["subscribers", { db, subscribers: [] }],
    ["countSubscribers", { db, countSubscribers: 3 }],
    ["message", { db, message: "Hello" }],
    ["from", { db, from: "Club" }],
    ["queue", { db, queue: "" }],
    ["records", { records: { install() {} } }],
    ["at", { db, at: START }],
  ])("refuses a wrong option %s", (field, options) => {
    expect(() => newsletter({ ...base(), ...options } as never)).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", field }),
    );
  });
});
