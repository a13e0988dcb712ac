import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/**
 * A proxy to the server that tests can cut. It parses the protocol, so it knows which statement a response belongs to.
 */
export interface Proxy {
  /** The address of this proxy. */
  url: string;
  /** Connections that are open through it. */
  connections(): number;
  /**
   * The server executes the next statement that matches, including the commit, but its response is lost: the connection is
   * cut instead. Resolves when that has happened.
   */
  loseResponseTo(statement: RegExp): Promise<void>;
  /** Silently drops all traffic on the existing connections. New ones work. */
  swallow(): void;
  /** Cuts every connection. */
  cut(): void;
}

export async function startProxy(serverUrl: string): Promise<Proxy> {
  const target = new URL(serverUrl);
  const links = new Set<Link>();
  const armed: Armed[] = [];
  const toServer = { host: target.hostname, port: Number(target.port || 5432), allowHalfOpen: true };
  // Half open, so that not even a close is acknowledged.
  const listening = createServer({ allowHalfOpen: true }, (client) => {
    const link = new Link(client, connect(toServer), armed);
    links.add(link);
    client.once("close", () => links.delete(link));
  });
  await new Promise<void>((resolve) => listening.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const link of links) link.cut();
    listening.close();
  });
  const url = new URL(serverUrl);
  url.hostname = "127.0.0.1";
  url.port = String((listening.address() as AddressInfo).port);
  return {
    url: url.href,
    connections: () => links.size,
    loseResponseTo: (statement) => new Promise((done) => armed.push({ statement, done })),
    swallow: () => {
      for (const link of links) link.swallow();
    },
    cut: () => {
      for (const link of links) link.cut();
    },
  };
}

interface Armed {
  statement: RegExp;
  done(): void;
}

/** A connection of a client and its connection to the server. */
class Link {
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #armed: Armed[];
  /** SQL of each prepared statement. */
  readonly #prepared = new Map<string, string>();
  #bound = "";
  /** Statements without a complete response. */
  readonly #asked: string[] = [];
  #losing: Armed | null = null;
  #swallowing = false;

  constructor(client: Socket, server: Socket, armed: Armed[]) {
    this.#client = client;
    this.#server = server;
    this.#armed = armed;
    const asked = new Messages("startup first", (type, body) => this.#ask(type, body));
    const responses = new Messages("typed", (type) => this.#respond(type));
    client.on("data", (chunk) => {
      if (this.#swallowing) return;
      asked.read(chunk);
      server.write(chunk);
    });
    server.on("data", (chunk) => {
      if (this.#swallowing) return;
      responses.read(chunk);
      // From the first byte: the whole response is lost.
      if (this.#losing === null) client.write(chunk);
    });
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      from.on("error", () => {});
      from.on("end", () => {
        if (!this.#swallowing) to.end();
      });
      from.on("close", () => {
        if (!this.#swallowing) to.destroy();
      });
    }
  }

  swallow(): void {
    this.#swallowing = true;
  }

  cut(): void {
    this.#client.destroy();
    this.#server.destroy();
  }

  #ask(type: string, body: Buffer): void {
    if (type === "P") {
      const [name = "", text = ""] = body.toString("utf8").split("\0");
      this.#prepared.set(name, text);
    } else if (type === "B") {
      const [, name = ""] = body.toString("latin1").split("\0", 2);
      this.#bound = this.#prepared.get(name) ?? "";
    } else if (type === "Q") this.#push(body.toString("utf8"));
    else if (type === "S") this.#push(this.#bound);
  }

  #push(text: string): void {
    this.#asked.push(text);
    const at = this.#armed.findIndex(({ statement }) => statement.test(text));
    if (at >= 0) this.#losing = this.#armed.splice(at, 1)[0] ?? null;
  }

  /** Ready for the next statement: this one is done, and committed unless a transaction is open. */
  #respond(type: string): void {
    if (type !== "Z") return;
    this.#asked.shift();
    if (this.#losing === null || this.#asked.length > 0) return;
    this.cut();
    this.#losing.done();
  }
}

/** Parses PostgreSQL's messages: a type, a length that includes itself, a body. */
class Messages {
  #rest: Buffer = Buffer.alloc(0);
  #typed: boolean;
  readonly #take: (type: string, body: Buffer) => void;

  constructor(start: "startup first" | "typed", take: (type: string, body: Buffer) => void) {
    this.#typed = start === "typed";
    this.#take = take;
  }

  read(chunk: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    for (;;) {
      const head = this.#typed ? 1 : 0;
      if (this.#rest.length < head + 4) return;
      const end = head + this.#rest.readUInt32BE(head);
      if (this.#rest.length < end) return;
      const type = this.#typed ? this.#rest.toString("latin1", 0, 1) : "";
      const body = this.#rest.subarray(head + 4, end);
      this.#rest = this.#rest.subarray(end);
      // The first message of a connection has no type.
      this.#typed = true;
      this.#take(type, body);
    }
  }
}
