import { mail, passwordReset } from "@holdfast/mail";
import { describe, expect, it } from "vitest";
import { describeDatabases } from "../../../holdfast/test/pack/scene.js";
import { LINK } from "./reset-scene.js";
import { passwordResetTests } from "./password-reset-suite.js";

describeDatabases(passwordResetTests, ["sqlite"]);

describe("passwordReset()", () => {
  const users = { byEmail: () => null, byId: () => null };
  const link = (token: string) => LINK + token;
  const base = () => ({
    mail: mail({ transport: { send: () => Promise.reject(new Error("no")) }, from: "hello@club.example" }),
    users,
    link,
  });
  const db = { query() {}, connect() {} } as never;

  it.each([
    ["db", {}],
    ["db", { db: {} }],
    ["mail", { db, mail: {} }],
    ["users", { db, users: { byEmail() {} } }],
    ["link", { db, link: LINK }],
    ["message", { db, message: "Hello" }],
    ["ttl", { db, ttl: "0s" }],
    ["ttl", { db, ttl: "8d" }],
    ["limit", { db, limit: 0 }],
    ["records", { db, records: {} }],
    ["records", { records: { install() {} } }],
    ["schema", { records: {}, schema: "app" }],
    ["token", { db, token: 1 }],
  ])("refuses a wrong option %s", (field, options) => {
    expect(() => passwordReset({ ...base(), ...options } as never)).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", field }),
    );
  });

  it("is used once per mail pack", () => {
    const options = { ...base(), db };
    passwordReset(options);
    expect(() => passwordReset(options)).toThrow('"password-reset" is already a template');
  });
});
