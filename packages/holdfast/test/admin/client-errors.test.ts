import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { holdfast } from "holdfast";
import { admin } from "holdfast/admin";
import { describe, expect, it, onTestFinished } from "vitest";
import { serve, TIMEOUTS, type Timeouts } from "#src/admin/http/serve.js";
import { engineOf } from "#src/engine/client/holdfast.js";
import { until } from "#src/testing/exercise-store/until.js";
import { mail } from "./scene.js";

/** A server that records internal errors and statuses, and raw connections to it. */
async function scene(timeouts: Timeouts = TIMEOUTS, streamsPerCaller = 20) {
  const internalErrors: unknown[] = [];
  const hf = await holdfast({ store: "sqlite::memory:", jobs: [mail], logger: false });
  const api = admin(hf, { onError: (error) => void internalErrors.push(error), streamsPerCaller });
  const statuses: number[] = [];
  const recording = {
    async fetch(request: Request, env?: unknown) {
      const response = await api.fetch(request, env);
      statuses.push(response.status);
      return response;
    },
  };
  const serving = await serve(recording, { host: "127.0.0.1", port: 0, timeouts });
  onTestFinished(async () => {
    await api.close();
    await serving.stop();
    await hf.close();
  });
  const { token } = await hf.tokens.create({ name: "ada", role: "admin" });
  const open = async (text: string | Buffer): Promise<{ socket: Socket; received: () => string }> => {
    const socket = connect(Number(new URL(serving.url).port), "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    let received = "";
    socket.on("data", (chunk) => (received += chunk.toString("latin1")));
    socket.on("error", () => {});
    await once(socket, "connect");
    socket.write(typeof text === "string" ? Buffer.from(text, "latin1") : text);
    return { socket, received: () => received };
  };
  return { hf, token, internalErrors, statuses, open };
}

const JSON_TYPE = "content-type: application/json\r\n";

describe("an incomplete body", () => {
  it.each([
    ["login", "POST", "/session"],
    ["enqueue", "POST", "/jobs"],
    ["retry", "POST", "/jobs/retry"],
    ["purge", "POST", "/jobs/purge"],
    ["preview", "POST", "/schedules/preview"],
    ["schedule", "PUT", "/schedules/x"],
    ["token", "POST", "/tokens"],
    ["logout", "DELETE", "/session"],
  ])("returns 400 and no internal error: %s", async (_what, method, path) => {
    const { token, internalErrors, statuses, open } = await scene();
    const head = `${method} /api/admin${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\n${JSON_TYPE}`;
    for (const rest of ['content-length: 100\r\n\r\n{"tok', 'transfer-encoding: chunked\r\n\r\n5\r\n{"tok\r\n']) {
      const before = statuses.length;
      const { socket } = await open(head + rest);
      await new Promise<void>((resolve) => socket.end(resolve));
      socket.destroy();
      await until("the request to end", () => statuses.length > before);
    }
    expect(statuses).toEqual([400, 400]);
    expect(internalErrors).toEqual([]);
  });

  it("gets a response if the client still listens", async () => {
    const { token, internalErrors, open } = await scene();
    const head = `POST /api/admin/jobs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\n${JSON_TYPE}`;
    const { socket, received } = await open(`${head}transfer-encoding: chunked\r\n\r\n2\r\n{"\r\nzz\r\n`);
    await once(socket, "close");
    expect(received()).toMatch(/^HTTP\/1\.1 400 /);
    expect(internalErrors).toEqual([]);
  });
});

describe("a malformed request", () => {
  it.each([
    ["a host with too many numbers", "GET /api/admin/jobs", "host: 1.2.3.4.5.6"],
    ["a host with too large numbers", "POST /api/admin/session", "host: 999.999.999.999"],
    ["an invalid host name", "GET /healthz", "host: xn--"],
    ["a host with a space", "GET /api/admin", "host: a b"],
    ["an empty host", "GET /api/admin/jobs", "host: "],
    ["a host with a path", "GET /", "host: a/b"],
    ["an invalid absolute URL", "GET http://[/api/admin", "host: localhost"],
    ["a backslash", "GET /api\\admin", "host: localhost"],
    ["no path", "OPTIONS *", "host: localhost"],
    ["an incomplete escape in the path", "GET /api/admin/jobs/%", "host: localhost"],
    ["a path that is not UTF-8", "GET /api/admin/schedules/%ff", "host: localhost"],
    ["an incomplete escape in the query", "GET /api/admin/jobs?type=%a", "host: localhost"],
    ["a query that is not UTF-8", "GET /api/admin/jobs?type=%ff", "host: localhost"],
  ])("gets an error message: %s", async (_what, line, host) => {
    const { token, internalErrors, open } = await scene();
    const { socket, received } = await open(
      `${line} HTTP/1.1\r\n${host}\r\nauthorization: Bearer ${token}\r\nconnection: close\r\n\r\n`,
    );
    await once(socket, "close");
    expect(received()).toMatch(/^HTTP\/1\.1 400 /);
    expect(received()).toContain('{"error":{"code":"INVALID_REQUEST","message":"the request URL is malformed');
    expect(internalErrors).toEqual([]);
  });

  it.each([
    ["an invalid length", "content-length: abc\r\n\r\n{}", "400"],
    ["two lengths", "content-length: 2\r\ncontent-length: 3\r\n\r\n{}", "400"],
    ["a length and chunks", "content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "400"],
    ["a body that is not UTF-8", "content-length: 2\r\n\r\n\xff\xfe", "400"],
    ["headers that are too long", `x-long: ${"a".repeat(20_000)}\r\n\r\n`, "431"],
    ["an invalid cookie", "cookie: holdfast_session=%ff%; =;;\r\ncontent-length: 2\r\n\r\n{}", "400"],
  ])("causes no internal error: %s", async (_what, rest, status) => {
    const { token, internalErrors, open } = await scene();
    const head = `POST /api/admin/jobs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\n${JSON_TYPE}connection: close\r\n`;
    const { socket, received } = await open(head + rest);
    await once(socket, "close");
    expect(received().slice(0, 12)).toBe(`HTTP/1.1 ${status}`);
    expect(internalErrors).toEqual([]);
  });
});

describe("a slow client", () => {
  const short: Timeouts = { headersMs: 60, requestMs: 120, idleMs: 400, checkMs: 10 };

  it("is disconnected if its headers are late", async () => {
    const { open, statuses } = await scene(short);
    const { socket, received } = await open("GET /api/admin HTTP/1.1\r\nhost: loc");
    await once(socket, "close");
    expect(received()).toMatch(/^HTTP\/1\.1 408 /);
    expect(statuses).toEqual([]);
  });

  it("is disconnected if its body is late", async () => {
    const { open, internalErrors } = await scene(short);
    const { socket, received } = await open(
      `POST /api/admin/session HTTP/1.1\r\nhost: localhost\r\n${JSON_TYPE}content-length: 9\r\n\r\n{`,
    );
    await once(socket, "close");
    expect(received()).toMatch(/^HTTP\/1\.1 (?:408|400) /);
    expect(internalErrors).toEqual([]);
  });

  it("is disconnected if it does not read", async () => {
    const { hf, token, open } = await scene(short, 1);
    const request = `GET /api/admin/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\n\r\n`;
    const { socket } = await open(request);
    socket.pause();
    const { events } = engineOf(hf);
    const queue = "x".repeat(100_000);
    await until("its stream to be closed", async () => {
      for (let nth = 0; nth < 20; nth++) events.emit("paused", { queue });
      const other = await open(request);
      await until("a response", () => other.received().includes("\r\n\r\n"));
      other.socket.destroy();
      return other.received().startsWith("HTTP/1.1 200 ");
    });
  });

  it("is checked much more often than its timeout", () => {
    expect(TIMEOUTS.checkMs * 10).toBeLessThanOrEqual(TIMEOUTS.headersMs);
  });
});
