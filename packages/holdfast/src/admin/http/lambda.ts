import { Hono } from "hono";
import { handle, type LambdaContext, type LambdaEvent } from "hono/aws-lambda";
import type { Admin } from "./app.js";

/** The response format of AWS Lambda. */
export interface LambdaResult {
  statusCode: number;
  headers?: Record<string, string> | undefined;
  multiValueHeaders?: Record<string, string[]> | undefined;
  cookies?: string[] | undefined;
  body: string;
  isBase64Encoded: boolean;
}

/**
 * The admin API as an AWS Lambda function, behind a function URL, API Gateway or a load balancer.
 *
 * ```ts
 * export const handler = lambdaHandler(api);
 * ```
 *
 * Lambda sends a response only when it is complete. So the event stream ends after the first counts; `EventSource` in browsers
 * reconnects automatically.
 */
export function lambdaHandler(api: Pick<Admin, "fetch">): (event: object, context?: object) => Promise<LambdaResult> {
  const app = new Hono<{ Bindings: LambdaEnv }>();
  app.all("*", async ({ req, env }) => {
    const incoming = { socket: { remoteAddress: clientAddressOf(env.event) } };
    return firstEvents(await api.fetch(req.raw, { ...env, incoming }));
  });
  // All responses are text.
  const handler = handle(app, { isContentTypeBinary: () => false });
  return (event, context) =>
    handler(event as LambdaEvent, context as LambdaContext | undefined) as Promise<LambdaResult>;
}

interface LambdaEnv {
  event: { requestContext?: { http?: { sourceIp?: string }; identity?: { sourceIp?: string } } };
}

/** The client address as AWS reports it. */
function clientAddressOf({ requestContext }: LambdaEnv["event"]): string | undefined {
  return requestContext?.http?.sourceIp ?? requestContext?.identity?.sourceIp;
}

// Below the default timeout of a Lambda function, 3 s.
const STREAM_MS = 1_500;
const COUNTS = /^event: (?:stats|outage)$/m;

/** Replaces an endless event stream by a response with its first events. */
async function firstEvents(response: Response): Promise<Response> {
  const { body, headers, status } = response;
  if (body === null || headers.get("content-type") !== "text/event-stream") return response;
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  const late = setTimeout(() => void reader.cancel(), STREAM_MS);
  let text = "";
  while (!COUNTS.test(text)) {
    const { value, done } = await reader.read();
    if (done) break;
    text += value;
  }
  clearTimeout(late);
  await reader.cancel();
  return new Response(text, { status, headers });
}
