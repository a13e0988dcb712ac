import { describe, expect, it } from "vitest";
import { adminScene } from "./scene.js";

interface ErrorBody {
  error: { code: string; message: string; issues?: { path: string; message: string }[] };
}

async function startSender() {
  const { send, token } = await adminScene("sqlite::memory:", {}, { redact: ["**.password"] });
  const admin = await token("admin");
  return async (method: string, path: string, body: string): Promise<{ status: number; text: string } & ErrorBody> => {
    const init = { method, token: admin, headers: { "content-type": "application/json" } };
    const response = await send(`/api/admin${path}`, method === "GET" ? { method, token: admin } : { ...init, body });
    const text = await response.text();
    return { status: response.status, text, ...(JSON.parse(text) as ErrorBody) };
  };
}

describe("a large request", () => {
  const levels = (count: number, key: string): string => `${`{"${key}":`.repeat(count)}1${"}".repeat(count)}`;

  it.each([
    ["long, deep keys", `{"type":"x","input":${levels(201, "k".repeat(1_000))}}`],
    ["a long key", `{"type":"x","input":{"${"k".repeat(200_000)}":"\\ud800"}}`],
    ["a long field", `{"type":"x","${"k".repeat(200_000)}":1}`],
    ["a long nested field", `{"type":"x","unique":{"key":"a","${"k".repeat(200_000)}":1}}`],
    ["a long key that the schema does not know", `{"type":"mail","input":{"to":${levels(150, "k".repeat(1_000))}}}`],
    [
      "__proto__ at a long path",
      `{"type":"x","input":${levels(150, "k".repeat(1_000)).replace("1", '{"__proto__":1}')}}`,
    ],
    [
      "a redaction mark at a long path",
      `{"type":"x","input":${levels(150, "k".repeat(1_000)).replace("1", '{"password":"[redacted]"}')}}`,
    ],
    ["a long string", `{"type":"${"x".repeat(200_000)}"}`],
    ["many issues", `{"type":"mail","tags":[${Array<string>(4_000).fill('"\\u0000"').join(",")}]}`],
  ])("gets a short error message: %s", async (_what, body) => {
    const result = await (await startSender())("POST", "/jobs", body);
    expect(result.status).toBe(400);
    expect(result.text.length).toBeLessThan(8_000);
    expect(result.error.message.length).toBeLessThanOrEqual(1_000);
    for (const { path } of result.error.issues ?? []) expect(path.length).toBeLessThanOrEqual(300);
  });

  it.each<[what: string, method: string, path: string, body: string, status: number, code: string]>([
    ["large input", "POST", "/jobs", `{"type":"x","input":[0${",0".repeat(400_000)}]}`, 413, "PAYLOAD_TOO_LARGE"],
    [
      "large schedule input",
      "POST",
      "/schedules",
      `{"name":"s","job":"x","every":"1h","input":[0${",0".repeat(400_000)}]}`,
      413,
      "PAYLOAD_TOO_LARGE",
    ],
    ["large body with input", "POST", "/jobs", `{"type":"x"}${" ".repeat(1_100_000)}`, 413, "BODY_TOO_LARGE"],
    ["large body without input", "POST", "/jobs/retry", `{"ids":["a"]}${" ".repeat(140_000)}`, 413, "BODY_TOO_LARGE"],
    ["many tags", "POST", "/jobs", `{"type":"x","tags":[1${",1".repeat(5_000)}]}`, 400, "INVALID_REQUEST"],
    [
      "many fields",
      "POST",
      "/jobs",
      `{"type":"x"${Array.from({ length: 5_000 }, (_, nth) => `,"k${nth}":1`).join("")}}`,
      400,
      "INVALID_REQUEST",
    ],
    [
      "many nested values",
      "POST",
      "/jobs",
      `{"type":"x","unique":{"k":[${"[],".repeat(5_000)}1]}}`,
      400,
      "INVALID_REQUEST",
    ],
    [
      "deep nesting",
      "POST",
      "/jobs",
      `{"type":"x","input":${"[".repeat(251)}${"]".repeat(251)}}`,
      400,
      "INVALID_REQUEST",
    ],
    ["deep nesting in invalid JSON", "POST", "/jobs", "[".repeat(1_000_000), 400, "INVALID_REQUEST"],
  ])("is rejected before validation: %s", async (_what, method, path, body, status, code) => {
    const result = await (await startSender())(method, path, body);
    expect([result.status, result.error.code]).toEqual([status, code]);
  });

  it("may have many brackets inside a string", async () => {
    const send = await startSender();
    const input = ['[{"\\', "[".repeat(300), '\\"["'];
    expect((await send("POST", "/jobs", JSON.stringify({ type: "x", input }))).status).toBe(201);
  });
});

describe("an unknown parameter", () => {
  it.each(["__proto__", "constructor", "toString", "hasOwnProperty", "", "LIMIT", "limit[]"])(
    "is rejected: %j",
    async (name) => {
      const send = await startSender();
      for (const path of ["/jobs", "/schedules", "/audit", "/queues", "/session", "/jobs/stats"]) {
        const { status, error } = await send("GET", `${path}?${encodeURIComponent(name)}=1`, "");
        expect([path, status, error?.code]).toEqual([path, 400, "INVALID_REQUEST"]);
        expect(error.issues).toEqual([{ path: name, message: expect.stringContaining("unknown field") as string }]);
      }
    },
  );

  it("is rejected in a body at every depth", async () => {
    const send = await startSender();
    for (const [path, body] of [
      ["/jobs", '{"type":"x","__proto__":1}'],
      ["/jobs", '{"type":"x","\\u005f_proto__":{"queue":"a"}}'],
      ["/jobs", '{"type":"x","constructor":1}'],
      ["/jobs", '{"type":"x","unique":{"key":"a","__proto__":1}}'],
      ["/jobs", '{"type":"x","unique":{"key":"a","scope":{"period":"1h","__proto__":1}}}'],
      ["/jobs", '{"type":"x","input":{"a":[{"__proto__":1}]}}'],
      ["/jobs/cancel", '{"filter":{"state":["dead"],"__proto__":1}}'],
      ["/schedules", '{"name":"q","job":"x","every":"1h","catchUp":{"all":1,"__proto__":1}}'],
      ["/schedules", '{"name":"q","job":"x","every":"1h","input":{"__proto__":1}}'],
      ["/schedules/preview", '{"every":"1h","__proto__":1}'],
      ["/tokens", '{"name":"q","role":"viewer","__proto__":1}'],
    ] as const) {
      expect([path, body, (await send("POST", path, body)).status]).toEqual([path, body, 400]);
    }
  });

  it("is rejected in the query of a route with a body", async () => {
    const send = await startSender();
    for (const [method, path] of [
      ["POST", "/jobs?priority=5"],
      ["POST", "/jobs?__proto__=5"],
      ["DELETE", "/jobs/01a1e0d0-d1c0-79bf-a2c2-8d02453060e6?force=1"],
      ["DELETE", "/session?x"],
    ] as const) {
      const { status, error } = await send(method, path, '{"type":"x"}');
      expect([path, status, error?.code]).toEqual([path, 400, "INVALID_REQUEST"]);
    }
  });

  it("is rejected when it is repeated", async () => {
    const send = await startSender();
    expect((await send("GET", "/jobs?limit=1&limit=1", "")).error.message).toBe("limit must not be repeated");
    expect((await send("GET", "/jobs?type=a&type=b&state=dead,completed&state=failed", "")).status).toBe(200);
  });
});
