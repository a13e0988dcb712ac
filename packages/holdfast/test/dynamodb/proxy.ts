import { Agent, createServer, request as ask, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { onTestFinished } from "vitest";
import { LaggingIndexes } from "./lagging-indexes.js";

/** A request as the SDK sends it. */
export interface Asked {
  operation: string;
  body: Record<string, unknown>;
  /** The body's text, to look for a key or an attribute in it. */
  text: string;
}
type Fits = (asked: Asked) => boolean;

/** Errors by the name that DynamoDB gives them. `conflict` and `throttled` come in the forms that each operation knows. */
export type Refusal =
  | "throttled"
  | "conflict"
  | "AccessDeniedException"
  | "UnrecognizedClientException"
  | "ExpiredTokenException"
  | "InternalServerError";

/** A fault that goes on until it is ended. */
export interface Fault {
  /** How often it has struck. */
  readonly count: number;
  end(): void;
}

/** A way to DynamoDB that can be made to fail as AWS's does and its emulator does not. */
export interface Proxy {
  endpoint: string;
  /** Requests that came, by operation. */
  asked: ReadonlyMap<string, number>;
  /** Turns this share of the requests away with an error. They do not reach DynamoDB. */
  refuse(how: Refusal, share?: number, fits?: Fits): Fault;
  /** Passes this share of the requests on, and cuts the connection instead of answering. */
  loseAnswers(share: number, fits?: Fits): Fault;
  /** The same for the next request that fits. Resolves when that has happened. */
  loseAnswerTo(fits: Fits): Promise<void>;
  /** Passes the next request that fits on, and cuts the connection in the middle of the answer. */
  cutAnswerTo(fits: Fits): Promise<void>;
  /** Takes requests and never answers; they do not reach DynamoDB. */
  swallow(fits?: Fits): Fault;
  /** Refuses requests that were signed by a clock more than five minutes off. */
  checkSigningTime(): void;
  /** From now on indexes are up to so much behind the table, entry by entry. The table must have been made over this proxy. */
  lag(ms: number): void;
  /** DynamoDB's clock, as its answers tell it, is so much ahead of ours. */
  shiftTime(ms: number): void;
}

const WRITES = new Set(["PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"]);
export const isWrite: Fits = ({ operation }) => WRITES.has(operation);

interface Loss {
  fits: Fits;
  strike: () => boolean;
  /** The head of the answer is sent, and a part of its body. */
  midway?: true;
  done(): void;
}
interface Swallow {
  fits: Fits;
  strike: () => boolean;
}
interface Turned {
  how: Refusal;
  fits: Fits;
  strike: () => boolean;
}

export async function startProxy(target: string): Promise<Proxy> {
  const agent = new Agent({ keepAlive: true });
  const asked = new Map<string, number>();
  const refusals = new Set<Turned>();
  const losses = new Set<Loss>();
  const swallows = new Set<Swallow>();
  let checksTime = false;
  const sockets = new Set<Socket>();
  const indexes = new LaggingIndexes((operation, body) => pass(operation, JSON.stringify(body)));
  let shiftMs = 0;

  /** What DynamoDB says to a request. */
  async function pass(operation: string, text: string): Promise<Answer> {
    const { hostname, port } = new URL(target);
    const headers = {
      "content-type": "application/x-amz-json-1.0",
      "x-amz-target": `DynamoDB_20120810.${operation}`,
      // The emulator tells its users apart by these, and asks for no more.
      authorization: authorization ?? "",
    };
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      ask({ hostname, port, method: "POST", headers, agent }, resolve).once("error", reject).end(text);
    });
    return { status: answer.statusCode ?? 0, date: answer.headers.date, text: await read(answer) };
  }
  let authorization: string | undefined;

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    authorization = request.headers.authorization;
    const operation = String(request.headers["x-amz-target"]).split(".")[1] ?? "";
    const text = await read(request);
    const what: Asked = { operation, text, body: JSON.parse(text) as Record<string, unknown> };
    asked.set(operation, (asked.get(operation) ?? 0) + 1);
    if ([...swallows].some(({ fits, strike }) => fits(what) && strike())) return;
    if (checksTime && isOff(request.headers["x-amz-date"])) return send(response, SIGNED_AT_ANOTHER_TIME, shiftMs);
    const refusal = [...refusals].find(({ fits, strike }) => fits(what) && strike());
    if (refusal !== undefined) return send(response, refused(refusal.how, what), shiftMs);
    const loss = [...losses].find(({ fits, strike }) => fits(what) && strike());
    const said = await indexes.answer(what, () => pass(operation, text));
    if (loss === undefined) return send(response, said, shiftMs);
    if (loss.midway === true) {
      response.writeHead(said.status, { "content-type": "application/x-amz-json-1.0", "content-length": 10_000 });
      await new Promise<void>((resolve) => response.write("{", () => resolve()));
    }
    request.socket.destroy();
    loss.done();
  }

  const server = createServer((request, response) => {
    // The server itself is away: so are we.
    answer(request, response).catch(() => request.socket.destroy());
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

  /** Puts a fault into force. */
  function begin<Kind extends object>(faults: Set<Kind>, make: (strike: () => true) => Kind): Fault {
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

  function loseNext(loss: Pick<Loss, "fits" | "midway">): Promise<void> {
    return new Promise((done) => {
      const fault = begin(losses, (strike) => ({
        ...loss,
        strike: () => {
          fault.end();
          return strike();
        },
        done,
      }));
    });
  }

  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    refuse: (how, share = 1, fits = isWrite) =>
      begin(refusals, (strike) => ({ how, fits, strike: () => Math.random() < share && strike() })),
    loseAnswers: (share, fits = isWrite) =>
      begin(losses, (strike) => ({ fits, strike: () => Math.random() < share && strike(), done: () => {} })),
    loseAnswerTo: (fits) => loseNext({ fits }),
    cutAnswerTo: (fits) => loseNext({ fits, midway: true }),
    swallow: (fits = () => true) => begin(swallows, (strike) => ({ fits, strike })),
    checkSigningTime: () => void (checksTime = true),
    lag: (ms) => indexes.lag(ms),
    shiftTime: (ms) => void (shiftMs = ms),
  };
}

export interface Answer {
  status: number;
  date: string | undefined;
  text: string;
}

async function read(message: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}

function send(response: ServerResponse, { status, date, text }: Answer, shiftMs: number): void {
  const at = date === undefined ? trueTime() : Date.parse(date);
  response.writeHead(status, {
    "content-type": "application/x-amz-json-1.0",
    date: new Date(at + shiftMs).toUTCString(),
    "content-length": Buffer.byteLength(text),
  });
  response.end(text);
}

// Kept, since a test may put another in its place.
const trueTime = Date.now;

function isOff(signedAt: string | string[] | undefined): boolean {
  const parts = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(String(signedAt))?.slice(1).map(Number) ?? [];
  const [year = 0, month = 1, day, hour, minute, second] = parts;
  return Math.abs(Date.UTC(year, month - 1, day, hour, minute, second) - trueTime()) > 300_000;
}
const SIGNED_AT_ANOTHER_TIME: Answer = {
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

/** The answer that turns a request away. */
function refused(how: Refusal, { operation, body }: Asked): Answer {
  const writes = operation === "TransactWriteItems" ? (body["TransactItems"] as unknown[]).length : 0;
  const error = (type: string, more: object = { message: MESSAGES[how] }): Answer => ({
    status: type === "InternalServerError" ? 500 : 400,
    date: undefined,
    text: JSON.stringify({ __type: `com.amazonaws.dynamodb.v20120810#${type}`, ...more }),
  });
  if (writes > 0 && (how === "conflict" || how === "throttled")) {
    // One of its writes has met that, and the others nothing.
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
