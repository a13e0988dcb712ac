import { lambdaHandler, type LambdaResult } from "holdfast/admin";
import { describe, expect, it } from "vitest";
import { adminScene, mail } from "./scene.js";

interface Sent {
  method?: string;
  query?: string;
  headers?: Record<string, string>;
  cookies?: string[];
  body?: string;
  isBase64Encoded?: boolean;
  from?: string;
}

/** An event of a function URL or of an API Gateway HTTP API (format 2.0). */
function eventOf(
  path: string,
  { method = "GET", query = "", headers = {}, from = "203.0.113.7", ...rest }: Sent = {},
): object {
  return {
    version: "2.0",
    routeKey: "$default",
    rawPath: path,
    rawQueryString: query,
    headers: { host: "abc.lambda-url.eu-central-1.on.aws", "x-forwarded-proto": "https", ...headers },
    requestContext: {
      accountId: "anonymous",
      apiId: "abc",
      domainName: "abc.lambda-url.eu-central-1.on.aws",
      domainPrefix: "abc",
      http: { method, path, protocol: "HTTP/1.1", sourceIp: from, userAgent: "test" },
      requestId: "r",
      routeKey: "$default",
      stage: "$default",
      time: "15/Nov/2026:12:00:00 +0000",
      timeEpoch: 1_794_744_000_000,
    },
    isBase64Encoded: false,
    ...rest,
  };
}

const JSON_BODY = { "content-type": "application/json" };
const bodyOf = ({ body }: LambdaResult): unknown => JSON.parse(body);

describe("lambdaHandler", () => {
  it("handles queries, bodies, base64 and errors", async () => {
    const { api, hf, token } = await adminScene("sqlite::memory:");
    const handler = lambdaHandler(api);
    const headers = { authorization: `Bearer ${await token("admin")}` };
    const body = JSON.stringify({ type: "mail", input: { to: "Zoë" } });
    const enqueue: Sent = { method: "POST", headers: { ...headers, ...JSON_BODY } };
    expect((await handler(eventOf("/api/admin/jobs", { ...enqueue, body }))).statusCode).toBe(201);
    const encoded = { body: Buffer.from(body).toString("base64"), isBase64Encoded: true };
    const made = await handler(eventOf("/api/admin/jobs", { ...enqueue, ...encoded }), { awsRequestId: "r" });
    expect(made).toMatchObject({ statusCode: 201, headers: JSON_BODY, isBase64Encoded: false });
    expect((await hf.get((bodyOf(made) as { id: string }).id))?.input).toEqual({ to: "Zoë" });

    const listed = await handler(eventOf("/api/admin/jobs", { headers, query: "state=pending,dead&limit=1" }));
    expect((bodyOf(listed) as { jobs: unknown[] }).jobs).toHaveLength(1);
    expect(await handler(eventOf("/api/admin/jobs"))).toMatchObject({
      statusCode: 401,
      headers: { "www-authenticate": "Bearer" },
    });
    expect((await handler(eventOf("/nowhere"))).statusCode).toBe(404);
    const large = JSON.stringify({ type: "mail", input: "x".repeat(10_000_000) });
    expect((await handler(eventOf("/api/admin/jobs", { ...enqueue, body: large }))).statusCode).toBe(413);
    expect(await handler(eventOf("/api/admin/jobs", { method: "HEAD", headers }))).toMatchObject({
      statusCode: 200,
      body: "",
    });
  });

  it("accepts events of the API Gateway REST API", async () => {
    const { api, token } = await adminScene("sqlite::memory:");
    const authorization = [`Bearer ${await token("viewer")}`];
    const result = await lambdaHandler(api)({
      httpMethod: "GET",
      path: "/api/admin/jobs",
      headers: {},
      multiValueHeaders: { authorization },
      multiValueQueryStringParameters: { state: ["pending", "dead"] },
      requestContext: { domainName: "abc.example", identity: { sourceIp: "203.0.113.7" } },
      body: null,
      isBase64Encoded: false,
    });
    expect(result).toMatchObject({ statusCode: 200, multiValueHeaders: { "content-type": ["application/json"] } });
  });

  it("supports sessions and counts invalid tokens by source IP", async () => {
    const { api, token } = await adminScene("sqlite::memory:", { loginAttempts: 2 });
    const handler = lambdaHandler(api);
    const login = (given: string, from: string): Promise<LambdaResult> =>
      handler(
        eventOf("/api/admin/session", {
          method: "POST",
          headers: JSON_BODY,
          body: JSON.stringify({ token: given }),
          from,
        }),
      );
    for (const status of [401, 401, 429]) expect((await login("hf_wrong", "198.51.100.1")).statusCode).toBe(status);
    expect((await login("hf_wrong", "198.51.100.2")).statusCode).toBe(401);
    const { statusCode, cookies = [] } = await login(await token("viewer"), "198.51.100.2");
    expect(statusCode).toBe(200);
    expect(cookies).toContainEqual(expect.stringMatching(/^holdfast_session=.*; Secure$/));
    const cookie = cookies[0]?.split(";")[0] ?? "";
    expect(bodyOf(await handler(eventOf("/api/admin/session", { cookies: [cookie] })))).toMatchObject({
      name: "token:viewer",
    });
  });

  it("ends the event stream after the first counts", async () => {
    const { api, hf, token } = await adminScene("sqlite::memory:");
    const handler = lambdaHandler(api);
    await hf.enqueue(mail, { to: "ada" });
    const headers = { authorization: `Bearer ${await token("viewer")}` };
    // More than the limit of concurrent streams.
    for (let nth = 0; nth < 210; nth++) {
      const { statusCode, body } = await handler(eventOf("/api/admin/events", { headers }));
      expect(statusCode).toBe(200);
      if (nth > 0) continue;
      expect(body).toMatch(/^retry: 2000\n\nevent: stats\ndata: \{.*"pending":1/);
    }
  });

  it("ends the event stream if the store hangs", async () => {
    const { api, hf, token } = await adminScene("sqlite::memory:");
    const headers = { authorization: `Bearer ${await token("viewer")}` };
    hf.stats = () => new Promise<never>(() => {});
    const { statusCode, body } = await lambdaHandler(api)(eventOf("/api/admin/events", { headers }));
    expect([statusCode, body]).toEqual([200, "retry: 2000\n\n"]);
  });
});
