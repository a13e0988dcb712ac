import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { UnknownStore } from "holdfast";
import { hideSecret } from "#src/secret.js";

describe("the address of a store", () => {
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
    ["postgres://db/shop?sslpassword=pw&x=1", "postgres://db/shop?sslpassword=***&x=1"],
    ["postgres://db/shop?x=1&API_KEY=pw#pw", "postgres://db/shop?x=1&API_KEY=***"],
    ["postgres://db/shop?p%61ssword=pw", "postgres://db/shop?p%61ssword=***"],
    ["postgres://ada@db/shop?password=pw@pw", "postgres://***"],
    ["postgres://ada:pw?key=pw@db", "postgres://***"],
    ["host=db password=pw user=ada", "host=db password=*** user=ada"],
    ["host=db password = 'pw pw\\' pw' user=ada", "host=db password = *** user=ada"],
    ["password=pw\\ pw host=db", "password=*** host=db"],
    ["Server=db;Pwd=pw;User=ada", "Server=db;Pwd=***"],
    ["host=db password=pw@pw", "***"],
  ])("%s is shown as %s, and in the error for a store that is unknown", (given, shown) => {
    expect(hideSecret(given)).toBe(shown);
    expect(shown).not.toContain("pw");
    expect(new UnknownStore(given).message).toContain(JSON.stringify(shown));
  });

  it.each([
    "postgres://db:5432/shop?sslmode=verify-full",
    "postgres://ada@db/shop",
    "sqlite:/home/ada@work/a:b@c.db",
    "sqlite::memory:",
    "dynamodb://jobs?region=eu-central-1&shards=8",
    "jobs.db",
    "",
  ])("%s has no secret and is shown as it is", (given) => expect(hideSecret(given)).toBe(given));

  it("never shows a password before a host, whatever is in it", () => {
    const password = fc.string({ unit: "grapheme-ascii", maxLength: 12 }).map((text) => `Zq${text}Zq`);
    const scheme = fc.constantFrom("postgres://", "postgres:/", "postgres//", "//", '"postgres://', "mysql://", "");
    fc.assert(
      fc.property(scheme, password, (begin, secret) => {
        expect(hideSecret(`${begin}ada:${secret}@db/shop`)).not.toContain("Zq");
      }),
      { numRuns: 2_000 },
    );
  });
});
