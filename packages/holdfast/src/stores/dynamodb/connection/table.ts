import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Item } from "./attributes.js";
import { Expression, type Change } from "./expressions.js";
import { fault, isPassing, isUnreached, mayBeDone } from "./errors.js";
import { attributeOf } from "./attributes.js";
import { TABLE_KEY, type Key } from "../jobs/keys.js";
import { ServerTime } from "./server-time.js";

/** The part of the AWS SDK's client that is used here; a `DynamoDBClient` is one. */
export interface DynamoClient {
  send(command: never): Promise<unknown>;
  destroy?(): void;
}

type Send = (command: object, options: { abortSignal: AbortSignal }) => Promise<unknown>;

/** The classes of `@aws-sdk/client-dynamodb` by name. */
export type Sdk = Readonly<Record<string, new (input: object) => object>>;

export interface TableOptions {
  name: string;
  /** Table and region, for people. */
  where: string;
  connect(): Promise<{ sdk: Sdk; client: DynamoClient }>;
  /** Requests under way at a time. */
  requests: number;
  /** How long a request may go without an answer. */
  answerMs: number;
}

/**
 * `old` is the item before, where there was one and it was asked for; `found` what the condition met. `repeated`: the
 * request was sent before and not answered, so that what it met may be its own work.
 */
export type Written = { done: true; old: Item | null } | { done: false; found: Item | null; repeated: boolean };

/** For whom an answer is worth nothing after a while. */
export interface Patience {
  /** How long a request is repeated, if not as long as any other. */
  withinMs?: number;
}

/** One write of a transaction. */
export type TransactItem =
  | { put: Item; when?: Change }
  | { update: Key; change: Change }
  | { delete: Key; when?: Change }
  | { check: Key; when: Change };

/** `failed` has, item by item, what its condition met; undefined where the condition held. */
export type Transacted = { done: true } | { done: false; failed: (Item | null | undefined)[] };

/** Entries of one partition, of the table or of an index, in the order of their range key. */
export interface QueryRequest {
  /** Left out: the table itself. */
  index?: IndexKey;
  hash: string;
  /** Range keys below this, at most this, from this on or after this. */
  below?: string;
  above?: string;
  from?: string;
  limit?: number;
  newestFirst?: boolean;
  /** Sees every write that was answered; an index cannot. */
  consistent?: boolean;
  after?: Item | null;
}
/** Without a name it is the table's own. */
export interface IndexKey {
  name?: string;
  hash: string;
  range: string;
}
export interface Page {
  items: Item[];
  /** Where the next page begins; null: there is none. */
  next: Item | null;
}

// A request that DynamoDB has no room for is repeated after a random time up to this, and then twice that, and so on.
const FIRST_WAIT_MS = 25;
const LONGEST_WAIT_MS = 2_000;
const PATIENCE_MS = 15_000;
// Where nobody is there, whoever waits is told earlier: a name may be misspelt, and the engine tries again anyway.
const UNREACHED_MS = 4_000;
// How often an answer is asked for its time, once the first few have been.
const TIME_MS = 1_000;
const FIRST_TIMES = 8;
const GET_AT_ONCE = 100;

/** DynamoDB had no room to read them. */
const UNREAD = { name: "ProvisionedThroughputExceededException" };
const INVALID = { name: "ValidationException", $metadata: { httpStatusCode: 400 } };

interface Sending extends Patience {
  /** False: the request names its table by itself. */
  names?: boolean;
  once?: boolean;
}
interface Reason {
  Code?: string;
  Message?: string;
  Item?: Item;
}
interface Answer {
  Item?: Item;
  Items?: Item[];
  Attributes?: Item;
  LastEvaluatedKey?: Item;
  Responses?: Record<string, Item[]>;
  UnprocessedKeys?: Record<string, { Keys?: Item[] }>;
}

/**
 * One table. So many requests at a time and no more; what DynamoDB has no room for is repeated, later and later; a
 * condition that does not hold is an answer and not an error.
 */
export class Table {
  readonly #options: TableOptions;
  readonly time: ServerTime = new ServerTime();
  #connected: Promise<{ sdk: Sdk; client: DynamoClient }> | null = null;
  #underWay = 0;
  readonly #waiting: (() => void)[] = [];
  #times = 0;
  #timeAt = 0;

  constructor(options: TableOptions) {
    this.#options = options;
  }

  get name(): string {
    return this.#options.name;
  }
  get where(): string {
    return this.#options.where;
  }

  async put(item: Item, when?: Change): Promise<Written> {
    return this.#conditional("PutItem", { Item: item, ...when?.conditionInput });
  }

  /** With the item as it was. */
  async update(key: Key, change: Change, patience: Patience = {}): Promise<Written> {
    const input = { Key: keyItem(key), ...change.updateInput, ReturnValues: "ALL_OLD" };
    return this.#conditional("UpdateItem", input, patience);
  }

  /** A change without a condition that must not be made twice: if it is not answered, it counts as made. */
  async updateOnce(key: Key, change: Change): Promise<void> {
    await this.send("UpdateItem", { Key: keyItem(key), ...change.updateInput }, { once: true });
  }

  async delete(key: Key, when?: Change): Promise<Written> {
    const input = { Key: keyItem(key), ...when?.conditionInput, ReturnValues: "ALL_OLD" };
    const written = await this.#conditional("DeleteItem", input);
    const isOurs = !written.done && written.repeated && written.found === null;
    return isOurs ? { done: true, old: null } : written;
  }

  async get(key: Key, patience: Patience = {}): Promise<Item | null> {
    return (await this.send("GetItem", { Key: keyItem(key), ConsistentRead: true }, patience)).Item ?? null;
  }

  async query(request: QueryRequest): Promise<Page> {
    const { index = TABLE_KEY, hash, below, above, from, limit, newestFirst, consistent, after } = request;
    const expression = new Expression();
    const range = `#${index.range}`;
    const terms = [`#${index.hash} = ${expression.value(hash)}`];
    // DynamoDB takes one condition on the range key.
    if (from !== undefined && below !== undefined) {
      terms.push(`${range} BETWEEN ${expression.value(from)} AND ${expression.value(below)}`);
    } else if (from !== undefined) terms.push(`${range} >= ${expression.value(from)}`);
    else if (below !== undefined) terms.push(`${range} < ${expression.value(below)}`);
    else if (above !== undefined) terms.push(`${range} > ${expression.value(above)}`);
    const keys = terms.join(" AND ");
    const { Items, LastEvaluatedKey } = await this.send("Query", {
      KeyConditionExpression: keys,
      ...(index.name !== undefined && { IndexName: index.name }),
      ...(limit !== undefined && { Limit: limit }),
      ...(newestFirst === true && { ScanIndexForward: false }),
      ...(consistent === true && { ConsistentRead: true }),
      ...(after !== undefined && after !== null && { ExclusiveStartKey: after }),
      ...expression.inputFor(keys),
    });
    return { items: Items ?? [], next: LastEvaluatedKey ?? null };
  }

  /** Page after page. */
  async *pages(request: QueryRequest): AsyncGenerator<Item[]> {
    let after: Item | null = null;
    do {
      const page: Page = await this.query({ ...request, after });
      if (page.items.length > 0) yield page.items;
      after = page.next;
    } while (after !== null);
  }

  async all(request: QueryRequest): Promise<Item[]> {
    const items: Item[] = [];
    for await (const page of this.pages(request)) items.push(...page);
    return items;
  }

  /** Items by their keys, each once, in no order; those that are missing are left out. */
  async getAll(given: readonly Key[], patience: Patience = {}): Promise<Item[]> {
    // An entry that moves while an index is walked is met twice, and DynamoDB refuses a request that names a key twice.
    const keys = [...new Map(given.map((key) => [JSON.stringify([key.pk, key.sk]), key])).values()];
    const parts: Key[][] = [];
    for (let from = 0; from < keys.length; from += GET_AT_ONCE) parts.push(keys.slice(from, from + GET_AT_ONCE));
    return (await Promise.all(parts.map((part) => this.#getSome(part.map(keyItem), patience)))).flat();
  }

  async #getSome(keys: Item[], { withinMs = Number.POSITIVE_INFINITY }: Patience): Promise<Item[]> {
    const found: Item[] = [];
    const { name } = this.#options;
    const from = performance.now();
    let asked = keys;
    for (let round = 0; asked.length > 0; round++) {
      // More than fits into one answer, or than there is capacity for: the rest is asked for again.
      if (round > 0) await pause(round);
      const leftMs = withinMs - (performance.now() - from);
      if (round > 0 && leftMs < 0) throw fault(Object.assign(new Error("not all items were read"), UNREAD), this.where);
      const request = { RequestItems: { [name]: { Keys: asked, ConsistentRead: true } } };
      const { Responses, UnprocessedKeys } = await this.send("BatchGetItem", request, {
        names: false,
        withinMs: leftMs,
      });
      found.push(...(Responses?.[name] ?? []));
      asked = UnprocessedKeys?.[name]?.Keys ?? [];
    }
    return found;
  }

  /** All of it or nothing. */
  async transact(items: readonly TransactItem[], patience: Patience = {}): Promise<Transacted> {
    const name = this.#options.name;
    // A request that is repeated because its answer got lost is known by its token, and answered as before.
    const request = { TransactItems: items.map((item) => transactInput(name, item)), ClientRequestToken: randomUUID() };
    try {
      await this.send("TransactWriteItems", request, { names: false, ...patience });
      return { done: true };
    } catch (error) {
      const reasons = (error as { CancellationReasons?: Reason[] }).CancellationReasons;
      const invalid = reasons?.find(({ Code }) => Code === "ValidationError");
      if (invalid !== undefined) throw Object.assign(new Error(invalid.Message, { cause: error }), INVALID);
      if (reasons === undefined) throw error;
      return {
        done: false,
        failed: reasons.map(({ Code, Item }) => (Code === "ConditionalCheckFailed" ? (Item ?? null) : undefined)),
      };
    }
  }

  async #conditional(operation: string, input: object, patience: Patience = {}): Promise<Written> {
    try {
      const request = { ...input, ReturnValuesOnConditionCheckFailure: "ALL_OLD" };
      const { Attributes } = await this.send(operation, request, patience);
      return { done: true, old: Attributes ?? null };
    } catch (error) {
      if ((error as Error).name !== "ConditionalCheckFailedException") throw error;
      const { Item: found = null, repeated = false, $metadata } = error as Met;
      // A client of the caller's own may repeat by itself.
      return { done: false, found, repeated: repeated || ($metadata?.attempts ?? 1) > 1 };
    }
  }

  /**
   * Sends one request, and again while that may help. Errors that say something of the request come as they are. `once`: a
   * request that is not answered counts as done.
   */
  async send(
    operation: string,
    input: object,
    { names = true, once = false, withinMs = Number.POSITIVE_INFINITY }: Sending = {},
  ): Promise<Answer> {
    const from = performance.now();
    await this.#enter();
    try {
      const request = names ? { TableName: this.#options.name, ...input } : input;
      let repeated = false;
      for (let round = 1; ; round++) {
        try {
          return await this.#sendOnce(operation, request);
        } catch (error) {
          if (isAnswer(error)) throw Object.assign(error as Met, { repeated });
          const why = passingPart(error);
          const patience = Math.min(withinMs, isUnreached(error) ? UNREACHED_MS : PATIENCE_MS);
          if (mayBeDone(why)) {
            if (once) return {};
            repeated = true;
          }
          const leftMs = patience - (performance.now() - from);
          if (!isPassing(why) || leftMs < 0) throw fault(error, this.#options.where);
          await pause(round, leftMs);
        }
      }
    } finally {
      this.#leave();
    }
  }

  async #sendOnce(operation: string, request: object): Promise<Answer> {
    const { sdk, client } = await (this.#connected ??= this.#connect());
    const Command = sdk[`${operation}Command`];
    if (Command === undefined) throw new Error(`the AWS SDK has no ${operation}Command`);
    const command = new Command(request);
    if (this.#wantsTime()) this.#readTime(command);
    // The SDK's own limit only warns, and a client of the caller's may have none: whoever takes a request and never answers
    // would be waited for for ever.
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), this.#options.answerMs);
    try {
      return (await (client.send as unknown as Send).call(client, command, { abortSignal: limit.signal })) as Answer;
    } finally {
      clearTimeout(timer);
    }
  }

  async #connect(): Promise<{ sdk: Sdk; client: DynamoClient }> {
    try {
      return await this.#options.connect();
    } catch (error) {
      this.#connected = null;
      throw error;
    }
  }

  #wantsTime(): boolean {
    const now = performance.now();
    if (this.#times >= FIRST_TIMES && now - this.#timeAt < TIME_MS && !this.time.isUnsure) return false;
    this.#times++;
    this.#timeAt = now;
    return true;
  }

  #readTime(command: Timed): void {
    command.middlewareStack?.add(
      (next) => async (args) => {
        const sentAt = Date.now();
        const result = await next(args);
        this.time.heard(result.response?.headers?.["date"], sentAt, Date.now());
        return result;
      },
      { step: "deserialize", priority: "low" },
    );
  }

  async #enter(): Promise<void> {
    if (this.#underWay >= this.#options.requests) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#underWay++;
  }

  #leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#underWay--;
    else next();
  }

  async close(owned: boolean): Promise<void> {
    const connected = await this.#connected?.catch(() => null);
    if (owned) connected?.client.destroy?.();
  }
}

/** A condition that did not hold, as the SDK tells it. */
interface Met extends Error {
  Item?: Item;
  repeated?: boolean;
  $metadata?: { attempts?: number };
}

interface Timed {
  middlewareStack?: {
    add(
      middleware: (next: (args: object) => Promise<TimedResult>) => (args: object) => Promise<TimedResult>,
      options: { step: string; priority: string },
    ): void;
  };
}
interface TimedResult {
  response?: { headers?: Record<string, string> };
}

/** A condition that did not hold, or a request that DynamoDB understood and refuses: whoever sent it knows what to make of it. */
function isAnswer(error: unknown): boolean {
  const { name, CancellationReasons } = error as Error & { CancellationReasons?: Reason[] };
  if (name === "ConditionalCheckFailedException" || name === "ValidationException") return true;
  return (
    CancellationReasons?.some(({ Code }) => Code === "ConditionalCheckFailed" || Code === "ValidationError") ?? false
  );
}

/** Of a transaction that was called off: why. */
function passingPart(error: unknown): unknown {
  const reasons = (error as { CancellationReasons?: Reason[] }).CancellationReasons;
  const reason = reasons?.find(({ Code }) => Code !== undefined && Code !== "None");
  return reason === undefined ? error : { name: reason.Code };
}

/** Random, or all who were turned away come back at once. */
function pause(round: number, mostMs: number = LONGEST_WAIT_MS): Promise<void> {
  return sleep(Math.min(mostMs, Math.random() * Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** round)));
}

export function keyItem({ pk, sk }: Key): Item {
  return { pk: attributeOf(pk), sk: attributeOf(sk) };
}

function transactInput(table: string, item: TransactItem): object {
  const common = { TableName: table, ReturnValuesOnConditionCheckFailure: "ALL_OLD" };
  if ("put" in item) return { Put: { ...common, Item: item.put, ...item.when?.conditionInput } };
  if ("update" in item) return { Update: { ...common, Key: keyItem(item.update), ...item.change.updateInput } };
  if ("delete" in item) return { Delete: { ...common, Key: keyItem(item.delete), ...item.when?.conditionInput } };
  return { ConditionCheck: { ...common, Key: keyItem(item.check), ...item.when.conditionInput } };
}
