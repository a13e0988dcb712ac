import { Hono } from "hono";
import { handle, type LambdaContext, type LambdaEvent } from "hono/aws-lambda";
import type { Admin } from "./app.js";

/** What AWS Lambda is answered. */
export interface LambdaResult {
  statusCode: number;
  headers?: Record<string, string> | undefined;
  multiValueHeaders?: Record<string, string[]> | undefined;
  cookies?: string[] | undefined;
  body: string;
  isBase64Encoded: boolean;
}

/**
 * The admin API as a function of AWS Lambda, behind a function URL, API Gateway or a load balancer.
 *
 * ```ts
 * export const handler = lambdaHandler(api);
 * ```
 *
 * Lambda answers when all of the answer is there. So the stream of events is cut after its first counts; a browser's
 * `EventSource` comes again by itself.
 */
export function lambdaHandler(api: Pick<Admin, "fetch">): (event: object, context?: object) => Promise<LambdaResult> {
  const app = new Hono<{ Bindings: LambdaEnv }>();
  app.all("*", async ({ req, env }) => {
    const incoming = { socket: { remoteAddress: addressIn(env.event) } };
    return beginningOf(await api.fetch(req.raw, { ...env, incoming }));
  });
  // All that the API says is text.
  const answer = handle(app, { isContentTypeBinary: () => false });
  return (event, context) =>
    answer(event as LambdaEvent, context as LambdaContext | undefined) as Promise<LambdaResult>;
}

interface LambdaEnv {
  event: { requestContext?: { http?: { sourceIp?: string }; identity?: { sourceIp?: string } } };
}

/** Who AWS says is at the other end, where it says so. */
function addressIn({ requestContext }: LambdaEnv["event"]): string | undefined {
  return requestContext?.http?.sourceIp ?? requestContext?.identity?.sourceIp;
}

// A function has 3 s unless told otherwise.
const STREAM_MS = 1_500;
const COUNTS = /^event: (?:stats|outage)$/m;

/** A stream that would go on becomes what it says first. */
async function beginningOf(response: Response): Promise<Response> {
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
