import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { UnknownStoreError } from "holdfast";
import { hideSecret } from "#src/access/secret.js";

describe("a store URL", () => {
  it.each([
    ["postgres://ada:pw@db:5432/shop", "postgres://ada:***@db:5432/shop"],
    ["postgres://ada:p@w/x@db", "postgres://ada:***@db"],
    ["postgres://:pw@db", "postgres://:***@db"],
    ["postgres:/ada:pw@db", "postgres:/ada:***@db"],
    ["postgres//ada:pw@db", "postgres//ada:***@db"],
    ["postgres:ada:pw@db", "postgres:ada:***@db"],
    ["postgress:ada:pw@db", "postgress:***@db"],
    ["postgres/ada:pw@db", "***@db"],
    ["//ada:pw@db", "//ada:***@db"],
    ["ada:pw@db", "ada:***@db"],
    ["ada:pw:pw@db", "ada:***@db"],
    ['"postgres://ada:pw@db"', '"postgres://ada:***@db"'],
    [" postgres://ada:pw@db", " postgres://ada:***@db"],
    ["postgres://us/er:pw@db", "postgres://***@db"],
    ["postgres://us?er:pw@db", "postgres://***@db"],
    ["postgres://a@b:pw@db", "postgres://***@db"],
    ["postgres://db/shop?sslpassword=pw&x=1", "postgres://db/shop?sslpassword=***&x=***"],
    ["postgres://db/shop?x=1&API_KEY=pw#pw", "postgres://db/shop?x=***&API_KEY=***"],
    ["postgres://db/shop?p%61ssword=pw", "postgres://db/shop?p%61ssword=***"],
    ["postgres://db/shop?options=-c%20app.password%3Dpw", "postgres://db/shop?options=***"],
    ["postgres://db/shop?opt%69ons=pw&schema=jobs", "postgres://db/shop?opt%69ons=***&schema=jobs"],
    ["postgres://db/shop?sslmode=require;password=pw", "postgres://db/shop?sslmode=***"],
    ["postgres://db/shop?application_name=a%26password%3Dpw", "postgres://db/shop?application_name=***"],
    ["postgres://db/shop?pw", "postgres://db/shop?***"],
    ["dynamodb://jobs?endpoint=http://ada:pw@db&shards=8", "dynamodb://***"],
    ["dynamodb://jobs?endpoint=http://ada:pw%40db&shards=8", "dynamodb://jobs?endpoint=***&shards=8"],
    ["http://localhost:7700/?token=pw", "http://localhost:7700/?token=***"],
    ["host=db options='-c pw'", "host=db options=***"],
    ["postgres://ada@db/shop?password=pw@pw", "postgres://***"],
    ["postgres://ada:pw?key=pw@db", "postgres://***"],
    ["host=db password=pw user=ada", "host=db password=*** user=ada"],
    ["host=db password = 'pw pw\\' pw' user=ada", "host=db password = *** user=ada"],
    ["password=pw\\ pw host=db", "password=*** host=db"],
    ["Server=db;Pwd=pw;User=ada", "Server=***"],
    ["host=db password=pw@pw", "***"],
  ])("%s is shown as %s, also in UnknownStoreError", (given, shown) => {
    expect(hideSecret(given)).toBe(shown);
    expect(shown).not.toContain("pw");
    expect(new UnknownStoreError(given).message).toContain(JSON.stringify(shown));
  });

  it.each([
    "postgres://db:5432/shop?sslmode=verify-full",
    "postgres://ada@db/shop",
    "sqlite:/home/ada@work/a:b@c.db",
    "sqlite::memory:",
    "dynamodb://jobs?region=eu-central-1&shards=8&marginMs=500&slack=0.5&requests=8&requestTimeoutMs=2000",
    "dynamodb://jobs?endpoint=http://localhost:8000",
    "postgres:///shop?host=/var/run/postgresql&schema=jobs",
    "jobs.db",
    "",
  ])("%s has no secret and is shown unchanged", (given) => expect(hideSecret(given)).toBe(given));

  it("never shows a password before a host", () => {
    const password = fc.string({ unit: "grapheme-ascii", maxLength: 12 }).map((text) => `Zq${text}Zq`);
    const scheme = fc.constantFrom("postgres://", "postgres:/", "postgres//", "//", '"postgres://', "mysql://", "");
    fc.assert(
      fc.property(scheme, password, (begin, secret) => {
        expect(hideSecret(`${begin}ada:${secret}@db/shop`)).not.toContain("Zq");
      }),
      { numRuns: 2_000 },
    );
  });

  it("never shows the value of an unknown parameter", () => {
    const name = fc.stringMatching(/^x[a-p%.=?-]{0,12}$/);
    const value = fc.string({ unit: "grapheme-ascii", maxLength: 12 }).map((text) => `Zq${text}`);
    fc.assert(
      fc.property(name, value, (parameter, secret) => {
        const shown = hideSecret(`postgres://db/shop?sslmode=require&${parameter}=${encodeURIComponent(secret)}`);
        expect(shown).not.toContain("Zq");
      }),
      { numRuns: 2_000 },
    );
  });
});
