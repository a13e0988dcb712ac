import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { redact as ofDiscord } from "../../packages/discord/dist/index.js";
import { redact as ofMail } from "../../packages/mail/dist/index.js";
import { redact as ofStripe } from "../../packages/stripe/dist/index.js";
import { readDocument, ROOT, tablesOf } from "./documents.js";

/** Guides, and the interfaces of options that they describe. */
const GUIDES: Record<string, [file: string, name: string][]> = {
  mail: [
    ["mail", "MailOptions"],
    ["message", "Message"],
    ["smtp/index", "SmtpOptions"],
    ["postmark/index", "PostmarkOptions"],
    ["log/index", "LogOptions"],
    ["options", "StorageOptions"],
    ["password-reset/password-reset", "PasswordResetOptions"],
    ["newsletter/newsletter", "NewsletterOptions"],
    ["templates", "TemplateContext"],
  ],
  stripe: [
    ["stripe", "CommonOptions"],
    ["stripe", "DatabaseOption"],
    ["event", "EventFilter"],
  ],
  discord: [["options", "DiscordOptions"]],
  housekeeping: [
    ["housekeeping", "HousekeepingOptions"],
    ["rules", "Condition"],
    ["presets", "Presets"],
    ["pruner", "PrunerOptions"],
  ],
};

function bodyOf(pack: string, file: string, name: string): string {
  const text = readFileSync(join(ROOT, "packages", pack, "dist", `${file}.d.ts`), "utf8");
  const [, body] = new RegExp(`interface ${name}\\b[^{]*\\{\\n(.*?)^\\}`, "ms").exec(text) ?? [];
  if (body === undefined) throw new Error(`${file}.d.ts does not declare ${name}`);
  return body;
}

function membersOf(pack: string, file: string, name: string): string[] {
  return [...bodyOf(pack, file, name).matchAll(/^ {4}(?:readonly )?(\w+)[?(:]/gm)].map(([, member = ""]) => member);
}

/** Members whose comment states a default value, with that value. */
function defaultsOf(pack: string, file: string, name: string): [member: string, value: string][] {
  const members = bodyOf(pack, file, name).matchAll(/\/\*\*(?<comment>.*?)\*\/\s*(?:readonly )?(?<member>\w+)\?/gs);
  return [...members].flatMap(({ groups: { comment = "", member = "" } = {} }) => {
    const value = /Default:? (?:`(?<quoted>[^`]+)`|(?<count>\d+))\./.exec(comment)?.groups;
    return value === undefined ? [] : [[member, value["quoted"] ?? value["count"] ?? ""]];
  });
}

const guideOf = (pack: string): string => readFileSync(join(ROOT, `docs/guides/${pack}.md`), "utf8");

describe.each(Object.entries(GUIDES))("the guide of the pack %s", (pack, interfaces) => {
  it.each(interfaces)("names the members of %s: %s", (file, name) => {
    const members = membersOf(pack, file, name).filter((member) => member !== "clock");
    expect(members.length).toBeGreaterThan(0);
    const guide = guideOf(pack);
    expect(members.filter((member) => !new RegExp(`\\b${member}\\b`).test(guide))).toEqual([]);
  });

  it("states the defaults of the code in its tables", () => {
    const rows = tablesOf(readDocument(`docs/guides/${pack}.md`))
      .filter(({ header }) => header[1] === "Default")
      .flatMap((table) => table.rows);
    const wrong = interfaces
      .flatMap(([file, name]) => defaultsOf(pack, file, name))
      .filter(([member, value]) => {
        const stated = rows.filter(([option]) => option === `\`${member}\``).map(([, cell = ""]) => cell);
        return stated.length > 0 && !stated.some((cell) => cell.replaceAll("`", "") === value);
      });
    expect(wrong).toEqual([]);
  });

  it("is named by the README of the package, and by that of the repository", () => {
    const targets = (path: string): string[] => readDocument(path).links.map(({ target }) => target);
    expect(targets(`packages/${pack}/README.md`)).toContain(`../../docs/guides/${pack}.md`);
    expect(targets("README.md")).toContain(`docs/guides/${pack}.md`);
  });
});

it.each(Object.entries({ mail: ofMail, stripe: ofStripe, discord: ofDiscord }))(
  "the guide of the pack %s lists the paths to redact",
  (pack, paths) => {
    const guide = guideOf(pack);
    expect(guide).toContain("`redact`");
    expect(paths.filter((path) => !guide.includes(`\`${path}\``))).toEqual([]);
  },
);
