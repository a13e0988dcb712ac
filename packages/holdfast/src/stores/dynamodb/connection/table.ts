import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { attributeOf, stringOf, type Item } from "./attributes.js";
import { Expression, type Change } from "./expressions.js";
import { storeError, isTransient, isUnreachable, mayHaveSucceeded } from "./errors.js";
import { TABLE_KEY, type Key } from "../jobs/item-keys.js";
import { ServerTime } from "./server-time.js";

/** The part of the AWS SDK's `DynamoDBClient` that Holdfast uses. */
export interface DynamoClient {
  send(command: never): Promise<unknown>;
  destroy?(): void;
}

type Send = (command: object, options: { abortSignal: AbortSignal }) => Promise<unknown>;

/** The classes of `@aws-sdk/client-dynamodb` by name. */
export type Sdk = Readonly<Record<string, new (input: object) => object>>;

export interface TableOptions {
  name: string;
  /** Table and region, for messages. */
  where: string;
  connect(): Promise<{ sdk: Sdk; client: DynamoClient }>;
  /** The maximum number of concurrent requests. */
  requests: number;
  /** How long to wait for a response. */
  requestTimeoutMs: number;
}

/**
 * The result of a conditional write. `old` is the item before the write, if it was requested. `found` is the item that
 * failed the condition. `resent`: an earlier try of the request got no response, so `old` or `found` may be our own write.
 *
 * Lost responses: when a response is lost, DynamoDB may or may not have done the write, and sending the request again
 * fails its own condition if it has. Every caller therefore compares `found` with what it wrote: the request token of
 * an insert or a claim, the fence of a completed job, the version of a schedule. `faults.test.ts` loses 10 % of the
 * responses: no job is lost, and none runs twice.
 */
export type Written =
  | { done: true; old: Item | null; resent?: boolean }
  | { done: false; found: Item | null; resent: boolean };

/** Limits how long a request is sent again. */
export interface RetryLimit {
  /** Default: as long as every other request. */
  withinMs?: number;
}

/** One write of a transaction. */
export type TransactItem =
  | { put: Item; when?: Change }
  | { update: Key; change: Change }
  | { delete: Key; when?: Change }
  | { check: Key; when: Change };

/** `failed` has for each write the item that failed its condition; undefined where the condition held. */
export type Transacted = { done: true } | { done: false; failed: (Item | null | undefined)[] };

/** Reads one partition of the table or of an index, in the order of the range key. */
export interface QueryRequest {
  /** Default: the table. */
  index?: IndexKey;
  hash: string;
  /**
   * Bounds of the range key: less than `below`, greater than `above`, at least `from`. With `from`, `below` is
   * inclusive.
   */
  below?: string;
  above?: string;
  from?: string;
  /** A condition on entries. Those that do not match are read and charged, but not returned. */
  filter?: (expression: Expression) => string;
  limit?: number;
  newestFirst?: boolean;
  /** Reads all completed writes. Not possible on an index. */
  consistent?: boolean;
  after?: Item | null;
}
/** Without a name: the key of the table. */
export interface IndexKey {
  name?: string;
  hash: string;
  range: string;
}
export interface Page {
  items: Item[];
  /** Where the next page starts; null after the last page. */
  next: Item | null;
}

// The delay before a request is sent again is random, up to a bound that doubles each time.
const FIRST_BACKOFF_MS = 25;
const MAX_BACKOFF_MS = 2_000;
const MAX_RETRY_MS = 15_000;
// Shorter without a connection: a name may be misspelled, and the engine tries again anyway.
const MAX_UNREACHABLE_RETRY_MS = 4_000;
// The time is read from the first responses, then from one response per interval.
const READ_TIME_EVERY_MS = 1_000;
const FIRST_TIME_READS = 8;
// DynamoDB's limit for BatchGetItem.
const MAX_BATCH_GET = 100;

/** BatchGetItem returned unprocessed keys until the time was up. */
const UNREAD = { name: "ProvisionedThroughputExceededException" };
const INVALID = { name: "ValidationException", $metadata: { httpStatusCode: 400 } };

interface SendOptions extends RetryLimit {
  /** False: the request already contains the table name. */
  addTableName?: boolean;
  /** Do not send a request again that may have succeeded. */
  once?: boolean;
}
interface Reason {
  Code?: string;
  Message?: string;
  Item?: Item;
}
interface CommandOutput {
  Item?: Item;
  Items?: Item[];
  Attributes?: Item;
  Count?: number;
  /** An earlier try of the request got no response. */
  resent?: boolean;
  $metadata?: { attempts?: number };
  LastEvaluatedKey?: Item;
  Responses?: Record<string, Item[]>;
  UnprocessedKeys?: Record<string, { Keys?: Item[] }>;
}

/**
 * Sends requests to one table. It limits the number of concurrent requests and sends a request again with growing
 * delays after a transient error. A condition that fails is a result, not an error.
 */
export class Table {
  readonly #options: TableOptions;
  readonly time: ServerTime = new ServerTime();
  #connected: Promise<{ sdk: Sdk; client: DynamoClient }> | null = null;
  #inFlight = 0;
  readonly #waiting: (() => void)[] = [];
  #timeReads = 0;
  #timeReadAt = 0;

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

  /** Returns the item before the update. */
  async update(key: Key, change: Change, retryLimit: RetryLimit = {}): Promise<Written> {
    const input = { Key: keyItem(key), ...change.updateInput, ReturnValues: "ALL_OLD" };
    return this.#conditional("UpdateItem", input, retryLimit);
  }

  /** For changes that must not be made twice and have no condition. If the response is lost, assumes success. */
  async updateOnce(key: Key, change: Change): Promise<void> {
    await this.send("UpdateItem", { Key: keyItem(key), ...change.updateInput }, { once: true });
  }

  async delete(key: Key, when?: Change): Promise<Written> {
    const input = { Key: keyItem(key), ...when?.conditionInput, ReturnValues: "ALL_OLD" };
    const written = await this.#conditional("DeleteItem", input);
    const isOwnWrite = !written.done && written.resent && written.found === null;
    return isOwnWrite ? { done: true, old: null } : written;
  }

  async get(key: Key, retryLimit: RetryLimit = {}): Promise<Item | null> {
    return (await this.send("GetItem", { Key: keyItem(key), ConsistentRead: true }, retryLimit)).Item ?? null;
  }

  async query(request: QueryRequest): Promise<Page> {
    const { Items, LastEvaluatedKey } = await this.send("Query", queryInput(request));
    return { items: Items ?? [], next: LastEvaluatedKey ?? null };
  }

  /** Counts the entries of one page without returning them. */
  async count(request: QueryRequest): Promise<{ count: number; next: Item | null }> {
    const { Count, LastEvaluatedKey } = await this.send("Query", { ...queryInput(request), Select: "COUNT" });
    return { count: Count ?? 0, next: LastEvaluatedKey ?? null };
  }

  /** Reads all pages. */
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

  /** Returns the existing items of these keys, each once, in any order. */
  async getAll(given: readonly Key[], retryLimit: RetryLimit = {}): Promise<Item[]> {
    // An entry that moves while an index is read can appear twice, and DynamoDB rejects duplicate keys in a request.
    const keys = [...new Map(given.map((key) => [JSON.stringify([key.pk, key.sk]), key])).values()];
    const parts: Key[][] = [];
    for (let from = 0; from < keys.length; from += MAX_BATCH_GET) parts.push(keys.slice(from, from + MAX_BATCH_GET));
    return (await Promise.all(parts.map((part) => this.#getRepeatedly(part.map(keyItem), retryLimit)))).flat();
  }

  /** Reads up to 100 keys in one request. `unread`: the `pk` of those that DynamoDB did not read. */
  async getSome(keys: readonly Key[]): Promise<{ items: Item[]; unread: ReadonlySet<string> }> {
    if (keys.length === 0) return { items: [], unread: new Set() };
    const unique = [...new Map(keys.map((key) => [JSON.stringify([key.pk, key.sk]), keyItem(key)])).values()];
    const { found, remaining } = await this.#getOnce(unique);
    return { items: found, unread: new Set(remaining.map((key) => stringOf(key, "pk") ?? "")) };
  }

  async #getOnce(keys: Item[], retryLimit: RetryLimit = {}): Promise<{ found: Item[]; remaining: Item[] }> {
    const { name } = this.#options;
    const request = { RequestItems: { [name]: { Keys: keys, ConsistentRead: true } } };
    const options = { addTableName: false, ...retryLimit };
    const { Responses, UnprocessedKeys } = await this.send("BatchGetItem", request, options);
    return { found: [...(Responses?.[name] ?? [])], remaining: UnprocessedKeys?.[name]?.Keys ?? [] };
  }

  async #getRepeatedly(keys: Item[], { withinMs = Number.POSITIVE_INFINITY }: RetryLimit): Promise<Item[]> {
    const found: Item[] = [];
    const from = performance.now();
    let remaining = keys;
    for (let round = 0; remaining.length > 0; round++) {
      // DynamoDB did not read all keys: the response was full, or the capacity was used up.
      if (round > 0) await backoff(round);
      const leftMs = withinMs - (performance.now() - from);
      if (round > 0 && leftMs < 0)
        throw storeError(Object.assign(new Error("not all items were read"), UNREAD), this.where);
      const read = await this.#getOnce(remaining, { withinMs: leftMs });
      found.push(...read.found);
      ({ remaining } = read);
    }
    return found;
  }

  /** Does all writes or none. */
  async transact(items: readonly TransactItem[], retryLimit: RetryLimit = {}): Promise<Transacted> {
    const name = this.#options.name;
    // Lost responses: within 10 minutes, DynamoDB returns the first result to a second request with the same
    // ClientRequestToken, and does not do the writes again.
    const request = { TransactItems: items.map((item) => transactInput(name, item)), ClientRequestToken: randomUUID() };
    try {
      await this.send("TransactWriteItems", request, { addTableName: false, ...retryLimit });
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

  async #conditional(operation: string, input: object, retryLimit: RetryLimit = {}): Promise<Written> {
    try {
      const request = { ...input, ReturnValuesOnConditionCheckFailure: "ALL_OLD" };
      const { Attributes, resent = false, $metadata } = await this.send(operation, request, retryLimit);
      return { done: true, old: Attributes ?? null, resent: resent || ($metadata?.attempts ?? 1) > 1 };
    } catch (error) {
      if ((error as Error).name !== "ConditionalCheckFailedException") throw error;
      const { Item: found = null, resent = false, $metadata } = error as ConditionFailed;
      // The caller's own client may have sent the request again by itself.
      return { done: false, found, resent: resent || ($metadata?.attempts ?? 1) > 1 };
    }
  }

  /**
   * Sends a request, and sends it again while that may help. Failed conditions and validation errors are thrown
   * unchanged.
   */
  async send(
    operation: string,
    input: object,
    { addTableName = true, once = false, withinMs = Number.POSITIVE_INFINITY }: SendOptions = {},
  ): Promise<CommandOutput> {
    const from = performance.now();
    await this.#enter();
    try {
      const request = addTableName ? { TableName: this.#options.name, ...input } : input;
      let resent = false;
      for (let round = 1; ; round++) {
        try {
          const output = await this.#sendOnce(operation, request);
          return resent ? { ...output, resent } : output;
        } catch (error) {
          if (isFinal(error)) throw Object.assign(error as ConditionFailed, { resent });
          const reason = transactionReason(error);
          const maxMs = Math.min(withinMs, isUnreachable(error) ? MAX_UNREACHABLE_RETRY_MS : MAX_RETRY_MS);
          if (mayHaveSucceeded(reason)) {
            if (once) return {};
            resent = true;
          }
          const leftMs = maxMs - (performance.now() - from);
          if (!isTransient(reason) || leftMs < 0) throw storeError(error, this.#options.where);
          await backoff(round, leftMs);
        }
      }
    } finally {
      this.#leave();
    }
  }

  async #sendOnce(operation: string, request: object): Promise<CommandOutput> {
    const { sdk, client } = await (this.#connected ??= this.#connect());
    const Command = sdk[`${operation}Command`];
    if (Command === undefined) throw new Error(`the AWS SDK has no ${operation}Command`);
    const command = new Command(request);
    if (this.#shouldReadTime()) this.#readTime(command);
    // The SDK's own request timeout only logs a warning, and the caller's client may have none. Without this, a request
    // could wait forever.
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), this.#options.requestTimeoutMs);
    try {
      return (await (client.send as unknown as Send).call(client, command, {
        abortSignal: limit.signal,
      })) as CommandOutput;
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

  #shouldReadTime(): boolean {
    const now = performance.now();
    if (this.#timeReads >= FIRST_TIME_READS && now - this.#timeReadAt < READ_TIME_EVERY_MS && !this.time.isUnknown)
      return false;
    this.#timeReads++;
    this.#timeReadAt = now;
    return true;
  }

  #readTime(command: Timed): void {
    command.middlewareStack?.add(
      (next) => async (args) => {
        const sentAt = Date.now();
        const result = await next(args);
        this.time.observe(result.response?.headers?.["date"], sentAt, Date.now());
        return result;
      },
      { step: "deserialize", priority: "low" },
    );
  }

  async #enter(): Promise<void> {
    if (this.#inFlight >= this.#options.requests) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#inFlight++;
  }

  #leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#inFlight--;
    else next();
  }

  async close(owned: boolean): Promise<void> {
    const connected = await this.#connected?.catch(() => null);
    if (owned) connected?.client.destroy?.();
  }
}

/** The error of the SDK when a condition failed. */
interface ConditionFailed extends Error {
  Item?: Item;
  resent?: boolean;
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

/** A condition failed or the request is invalid. Sending it again does not help; the caller handles it. */
function isFinal(error: unknown): boolean {
  const { name, CancellationReasons } = error as Error & { CancellationReasons?: Reason[] };
  if (name === "ConditionalCheckFailedException" || name === "ValidationException") return true;
  return (
    CancellationReasons?.some(({ Code }) => Code === "ConditionalCheckFailed" || Code === "ValidationError") ?? false
  );
}

/** Why a transaction was cancelled; for other errors the error itself. */
function transactionReason(error: unknown): unknown {
  const reasons = (error as { CancellationReasons?: Reason[] }).CancellationReasons;
  const reason = reasons?.find(({ Code }) => Code !== undefined && Code !== "None");
  return reason === undefined ? error : { name: reason.Code };
}

/** The delay is random, so that throttled processes do not all send again at the same time. */
function backoff(round: number, maxMs: number = MAX_BACKOFF_MS): Promise<void> {
  return sleep(Math.min(maxMs, Math.random() * Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** round)));
}

function queryInput(request: QueryRequest): object {
  const { index = TABLE_KEY, hash, below, above, from, filter, limit, newestFirst, consistent, after } = request;
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
  const condition = filter?.(expression);
  return {
    KeyConditionExpression: keys,
    ...(condition !== undefined && { FilterExpression: condition }),
    ...(index.name !== undefined && { IndexName: index.name }),
    ...(limit !== undefined && { Limit: limit }),
    ...(newestFirst === true && { ScanIndexForward: false }),
    ...(consistent === true && { ConsistentRead: true }),
    ...(after !== undefined && after !== null && { ExclusiveStartKey: after }),
    ...expression.inputFor(keys, condition),
  };
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
