import { expect, it } from "vitest";
import { discord, redact, type DiscordOptions } from "../dist/index.js";
import { DiscordRest } from "../dist/rest.js";
import { discordServer, GUILD, TOKEN } from "./server.js";

const valid: DiscordOptions = {
  token: TOKEN,
  guild: GUILD,
  roles: { supporter: "1" },
  entitlements: () => [],
  members: () => null,
};

const bad: [options: object, message: string][] = [
  [{ rolls: {} }, "rolls is not an option of discord"],
  [{ token: `Bot ${TOKEN}` }, 'token must be the token of a bot, without "Bot "'],
  [{ token: "" }, "token must be"],
  [{ guild: "club" }, "guild must be the id"],
  [{ roles: {} }, "roles must be an object"],
  [{ roles: { supporter: 1 } }, "roles.supporter must be the id"],
  [{ roles: { supporter: "1/../../2" } }, "roles.supporter must be the id"],
  [{ entitlements: [] }, "entitlements must be a function"],
  [{ members: {} }, "members must be a function"],
  [{ users: {} }, "users must be a function"],
  [{ api: "discord.com" }, "api must be a URL"],
  [{ api: "file:///etc" }, "api must be a URL"],
  [{ prefix: "a b" }, "prefix must have"],
];

it.each(bad)("options are checked: %j", (options, message) => {
  expect(() => discord({ ...valid, ...options })).toThrow(message);
});

it("a prefix is for the types and the keys", () => {
  const { jobs } = discord({ ...valid, prefix: "club." });
  expect(jobs.map(({ type }) => type)).toEqual(["club.discord.sync", "club.discord.sync_account"]);
});

it("redact hides ids of Discord accounts", () => {
  expect(redact).toEqual(["input.account"]);
});

it("a call that takes too long, or whose job is cancelled, ends", async () => {
  const server = await discordServer();
  server.before = () => "handled";
  const call = { method: "GET", path: "/x", name: "GET member" } as const;
  const slow = new DiscordRest(server.api, TOKEN, 20).call(call, new AbortController().signal);
  await expect(slow).rejects.toThrow("Discord did not respond to GET member within 0.02 s");
  const controller = new AbortController();
  server.before = () => {
    controller.abort(new Error("cancelled"));
    return "handled";
  };
  await expect(new DiscordRest(server.api, TOKEN).call(call, controller.signal)).rejects.toThrow("cancelled");
  const { length } = server.requests;
  await expect(new DiscordRest(server.api, TOKEN).call(call, controller.signal)).rejects.toThrow("cancelled");
  expect(server.requests).toHaveLength(length);
});

it("errors do not contain the token", async () => {
  const rest = new DiscordRest("http://127.0.0.1:1", TOKEN);
  const call = rest.call({ method: "GET", path: "/x", name: "GET member" }, new AbortController().signal);
  await expect(call).rejects.toThrow(/^GET member failed: /);
  await expect(call).rejects.not.toThrow(TOKEN);
});
