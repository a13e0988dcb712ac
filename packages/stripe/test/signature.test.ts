import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { problemOfSignature } from "../dist/signature.js";
import { SECRET, sdk } from "./scene.js";

const NOW = 1_800_000_000;

function problem(header: string | null, payload: string, secrets: readonly string[] = [SECRET]): string | null {
  return problemOfSignature(header, Buffer.from(payload), { secrets, nowMs: NOW * 1_000 });
}

function headerFor(payload: string, { secret = SECRET, timestamp = NOW, scheme = "v1" } = {}): string {
  return sdk.webhooks.generateTestHeaderString({ payload, secret, timestamp, scheme });
}

/** Stripe's own library, whose result is the reference. */
function sdkAccepts(header: string, payload: string): boolean {
  try {
    sdk.webhooks.constructEvent(payload, header, SECRET, 300, undefined, NOW * 1_000);
    return true;
  } catch {
    return false;
  }
}

describe("signatures", () => {
  it("are those of Stripe's library, for any body and age", () => {
    const age = fc.integer({ min: -400, max: 400 });
    fc.assert(
      fc.property(fc.json(), age, fc.boolean(), (payload, seconds, changed) => {
        const header = headerFor(payload, { timestamp: NOW - seconds });
        const sent = changed ? `${payload} ` : payload;
        expect(problem(header, sent) === null).toBe(sdkAccepts(header, sent));
        expect(problem(header, sent) === null).toBe(!changed && seconds <= 300);
      }),
      { numRuns: 200 },
    );
  });

  it("accept one of several signatures, and one of several secrets", () => {
    const other = headerFor("{}", { secret: "whsec_other" }).split(",")[1];
    expect(problem(`${headerFor("{}")},${other}`, "{}")).toBeNull();
    expect(problem(`t=${NOW},${other},${headerFor("{}").split(",")[1]}`, "{}")).toBeNull();
    expect(problem(headerFor("{}"), "{}", ["whsec_other", SECRET])).toBeNull();
    expect(problem(headerFor("{}"), "{}", ["whsec_other"])).toMatch("no signature matches");
  });

  it("of other schemes are not accepted", () => {
    expect(problem(headerFor("{}", { scheme: "v0" }), "{}")).toMatch("malformed");
  });

  it("that are malformed are refused, and never throw", () => {
    const valid = headerFor("{}");
    const hostile = [
      "",
      "t=",
      "v1=",
      "t=,v1=",
      valid.replace("t=", "x="),
      valid.replace(/.$/, "z"),
      `t=-1,v1=${"0".repeat(64)}`,
    ];
    for (const header of [...hostile, `${valid},${"v1=0,".repeat(2_000)}`]) {
      expect(problem(header, "{}")).toMatch(/missing|malformed/);
    }
    expect(problem(null, "{}")).toMatch("missing");
    fc.assert(fc.property(fc.string(), (header) => void problem(header, "{}")));
  });

  it("have the time that is signed, not another one", () => {
    const old = headerFor("{}", { timestamp: NOW - 1_000 });
    expect(problem(old, "{}")).toMatch("older than 300 s");
    expect(problem(old.replace(/t=\d+/, `t=${NOW}`), "{}")).toMatch("no signature matches");
  });
});
