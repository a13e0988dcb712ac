import { Agent, createServer, request as sendRequest, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { onTestFinished } from "vitest";
import { LaggingIndexes } from "./lagging-indexes.js";

/** A request of the SDK. */
export interface SentRequest {
  operation: string;
  body: Record<string, unknown>;
  /** The body as a string, to search for a key or an attribute. */
  text: string;
}
type Matches = (asked: SentRequest) => boolean;

/** Errors by DynamoDB's names. `conflict` and `throttled` take the form that the operation uses. */
export type Refusal =
  | "throttled"
  | "conflict"
  | "AccessDeniedException"
  | "UnrecognizedClientException"
  | "ExpiredTokenException"
  | "InternalServerError";

/** A fault that lasts until `end`. */
export interface Fault {
  /** How many requests it has affected. */
  readonly count: number;
  end(): void;
}

/** A proxy in front of DynamoDB Local that simulates failures of the real DynamoDB. */
export interface Proxy {
  endpoint: string;
  /** The number of requests by operation. */
  requests: ReadonlyMap<string, number>;
  /** Rejects this share of the requests with an error. They do not reach DynamoDB. */
  refuse(how: Refusal, share?: number, matches?: Matches): Fault;
  /** Forwards this share of the requests and closes the connection instead of sending the response. */
  loseResponses(share: number, matches?: Matches): Fault;
  /** The same for the next matching request. Resolves when that has happened. */
  loseNextResponse(matches: Matches): Promise<void>;
  /** Forwards the next matching request and closes the connection in the middle of the response. */
  cutNextResponse(matches: Matches): Promise<void>;
  /** Accepts requests and never responds. They do not reach DynamoDB. */
  ignoreRequests(matches?: Matches): Fault;
  /** Rejects requests whose signing time is more than five minutes off. */
  checkSigningTime(): void;
  /** From now on, index entries lag up to this long. The table must have been created through this proxy. */
  lag(ms: number): void;
  /** Shifts the time in the responses. */
  shiftTime(ms: number): void;
}

const WRITES = new Set(["PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"]);
export const isWrite: Matches = ({ operation }) => WRITES.has(operation);

const OF_STREAMS = new Set(["DescribeStream", "GetRecords", "GetShardIterator"]);

interface Loss {
  matches: Matches;
  apply: () => boolean;
  /** Sends the headers and a part of the body first. */
  midway?: true;
  done(): void;
}
interface Ignored {
  matches: Matches;
  apply: () => boolean;
}
interface Rejection {
  how: Refusal;
  matches: Matches;
  apply: () => boolean;
}

export async function startProxy(target: string): Promise<Proxy> {
  const agent = new Agent({ keepAlive: true });
  const requests = new Map<string, number>();
  const refusals = new Set<Rejection>();
  const losses = new Set<Loss>();
  const ignored = new Set<Ignored>();
  let checksTime = false;
  const sockets = new Set<Socket>();
  const indexes = new LaggingIndexes((operation, body) => forward(operation, JSON.stringify(body)));
  let shiftMs = 0;

  /** Forwards a request to DynamoDB Local. */
  async function forward(operation: string, text: string): Promise<ProxyResponse> {
    const { hostname, port } = new URL(target);
    const headers = {
      "content-type": "application/x-amz-json-1.0",
      "x-amz-target": `${OF_STREAMS.has(operation) ? "DynamoDBStreams" : "DynamoDB"}_20120810.${operation}`,
      // The emulator separates users by these and does not check them.
      authorization: authorization ?? "",
    };
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      sendRequest({ hostname, port, method: "POST", headers, agent }, resolve).once("error", reject).end(text);
    });
    return { status: response.statusCode ?? 0, date: response.headers.date, text: await read(response) };
  }
  let authorization: string | undefined;

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    authorization = request.headers.authorization;
    const operation = String(request.headers["x-amz-target"]).split(".")[1] ?? "";
    const text = await read(request);
    const sent: SentRequest = { operation, text, body: JSON.parse(text) as Record<string, unknown> };
    requests.set(operation, (requests.get(operation) ?? 0) + 1);
    if ([...ignored].some(({ matches, apply }) => matches(sent) && apply())) return;
    if (checksTime && isOff(request.headers["x-amz-date"])) return send(response, WRONG_SIGNING_TIME, shiftMs);
    const refusal = [...refusals].find(({ matches, apply }) => matches(sent) && apply());
    if (refusal !== undefined) return send(response, refused(refusal.how, sent), shiftMs);
    const loss = [...losses].find(({ matches, apply }) => matches(sent) && apply());
    const result = await indexes.respond(sent, () => forward(operation, text));
    if (loss === undefined) return send(response, result, shiftMs);
    if (loss.midway === true) {
      response.writeHead(result.status, { "content-type": "application/x-amz-json-1.0", "content-length": 10_000 });
      await new Promise<void>((resolve) => response.write("{", () => resolve()));
    }
    request.socket.destroy();
    loss.done();
  }

  const server = createServer((request, response) => {
    // DynamoDB Local is not running: close the connection too.
    respond(request, response).catch(() => request.socket.destroy());
  });
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
    agent.destroy();
  });

  /** Starts a fault. */
  function begin<Kind extends object>(faults: Set<Kind>, make: (apply: () => true) => Kind): Fault {
    let count = 0;
    const kind = make(() => {
      count++;
      return true;
    });
    faults.add(kind);
    return {
      get count() {
        return count;
      },
      end: () => void faults.delete(kind),
    };
  }

  function loseNext(loss: Pick<Loss, "matches" | "midway">): Promise<void> {
    return new Promise((done) => {
      const fault = begin(losses, (apply) => ({
        ...loss,
        apply: () => {
          fault.end();
          return apply();
        },
        done,
      }));
    });
  }

  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    refuse: (how, share = 1, matches = isWrite) =>
      begin(refusals, (apply) => ({ how, matches, apply: () => Math.random() < share && apply() })),
    loseResponses: (share, matches = isWrite) =>
      begin(losses, (apply) => ({ matches, apply: () => Math.random() < share && apply(), done: () => {} })),
    loseNextResponse: (matches) => loseNext({ matches }),
    cutNextResponse: (matches) => loseNext({ matches, midway: true }),
    ignoreRequests: (matches = () => true) => begin(ignored, (apply) => ({ matches, apply })),
    checkSigningTime: () => void (checksTime = true),
    lag: (ms) => indexes.lag(ms),
    shiftTime: (ms) => void (shiftMs = ms),
  };
}

export interface ProxyResponse {
  status: number;
  date: string | undefined;
  text: string;
}

async function read(message: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}

function send(response: ServerResponse, { status, date, text }: ProxyResponse, shiftMs: number): void {
  const at = date === undefined ? trueTime() : Date.parse(date);
  response.writeHead(status, {
    "content-type": "application/x-amz-json-1.0",
    date: new Date(at + shiftMs).toUTCString(),
    "content-length": Buffer.byteLength(text),
  });
  response.end(text);
}

// Tests may replace Date.now.
const trueTime = Date.now;

function isOff(signedAt: string | string[] | undefined): boolean {
  const parts = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(String(signedAt))?.slice(1).map(Number) ?? [];
  const [year = 0, month = 1, day, hour, minute, second] = parts;
  return Math.abs(Date.UTC(year, month - 1, day, hour, minute, second) - trueTime()) > 300_000;
}
const WRONG_SIGNING_TIME: ProxyResponse = {
  status: 400,
  get date() {
    return new Date(trueTime()).toUTCString();
  },
  text: JSON.stringify({
    __type: "com.amazon.coral.service#InvalidSignatureException",
    message: "Signature expired: it is now earlier than that.",
  }),
};

const MESSAGES: Record<Refusal | "transaction", string> = {
  throttled: "The level of configured provisioned throughput for the table was exceeded.",
  conflict: "Transaction is ongoing for the item",
  transaction: "Transaction cancelled, please refer cancellation reasons for specific reasons",
  AccessDeniedException: "User: arn:aws:iam::1:user/u is not authorized to perform: dynamodb:PutItem",
  ExpiredTokenException: "The security token included in the request is expired",
  UnrecognizedClientException: "The security token included in the request is invalid.",
  InternalServerError: "Internal server error",
};
const THROTTLED = ["ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"];

/** The error response for a request. */
function refused(how: Refusal, { operation, body }: SentRequest): ProxyResponse {
  const writes = operation === "TransactWriteItems" ? (body["TransactItems"] as unknown[]).length : 0;
  const error = (type: string, more: object = { message: MESSAGES[how] }): ProxyResponse => ({
    status: type === "InternalServerError" ? 500 : 400,
    date: undefined,
    text: JSON.stringify({ __type: `com.amazonaws.dynamodb.v20120810#${type}`, ...more }),
  });
  if (writes > 0 && (how === "conflict" || how === "throttled")) {
    // One write of the transaction has the error.
    const at = Math.floor(Math.random() * writes);
    const Code = how === "conflict" ? "TransactionConflict" : "ThrottlingError";
    const reasons = Array.from({ length: writes }, (_, nth) =>
      nth === at ? { Code, Message: MESSAGES[how] } : { Code: "None" },
    );
    return error("TransactionCanceledException", { Message: MESSAGES.transaction, CancellationReasons: reasons });
  }
  if (how === "conflict") return error("TransactionConflictException");
  if (how === "throttled") return error(THROTTLED[Math.floor(Math.random() * THROTTLED.length)] as string);
  return error(how);
}
