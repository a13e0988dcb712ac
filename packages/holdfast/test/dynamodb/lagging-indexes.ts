import type { ProxyResponse, SentRequest } from "./proxy.js";

type Item = Record<string, { S?: string }>;
interface Index {
  name: string;
  hash: string;
  range: string;
  /** Attributes that its entries have. */
  has: ReadonlySet<string>;
}
/** An item after a write; null if deleted. Indexes show it from `visibleAt` on. */
interface Version {
  item: Item | null;
  visibleAt: number;
}
interface CreateTable {
  KeySchema: { AttributeName: string }[];
  GlobalSecondaryIndexes?: {
    IndexName: string;
    KeySchema: { AttributeName: string }[];
    Projection: { NonKeyAttributes?: string[] };
  }[];
}
interface Write {
  TableName: string;
  Key?: Item;
  Item?: Item;
}

/**
 * Simulates global secondary indexes that lag behind their table, as they can on DynamoDB but never do on the emulator.
 * Each write becomes visible later: entries appear late, show old values, or stay after their item is deleted.
 */
export class LaggingIndexes {
  readonly #forward: (operation: string, body: object) => Promise<ProxyResponse>;
  readonly #indexes = new Map<string, Index>();
  readonly #items = new Map<string, Version[]>();
  #key: string[] = [];
  #lagMs: number | null = null;
  #writing: Promise<unknown> = Promise.resolve();

  constructor(forward: (operation: string, body: object) => Promise<ProxyResponse>) {
    this.#forward = forward;
  }

  lag(ms: number): void {
    this.#lagMs = ms;
  }

  /** Responds to a request. `forward` sends it to DynamoDB Local. */
  async respond(sent: SentRequest, forward: () => Promise<ProxyResponse>): Promise<ProxyResponse> {
    const { operation, body } = sent;
    if (operation === "CreateTable") this.#readIndexes(body as unknown as CreateTable);
    if (this.#lagMs === null) return forward();
    const index = this.#indexes.get(String(body["IndexName"]));
    if (operation === "Query" && index !== undefined) return this.#query(index, body as unknown as Query);
    const written = writesOf(sent);
    if (written.length === 0) return forward();
    // One after another: the result of a write must be read before the next write changes it.
    const response = this.#writing.then(async () => {
      const result = await forward();
      if (result.status === 200) await Promise.all(written.map((write) => this.#record(write)));
      return result;
    });
    this.#writing = response.catch(() => {});
    return response;
  }

  #readIndexes({ KeySchema, GlobalSecondaryIndexes = [] }: CreateTable): void {
    const names = (schema: { AttributeName: string }[]): string[] => schema.map(({ AttributeName }) => AttributeName);
    this.#key = names(KeySchema);
    for (const { IndexName, KeySchema: keys, Projection } of GlobalSecondaryIndexes) {
      const [hash = "", range = ""] = names(keys);
      const has = new Set([...this.#key, hash, range, ...(Projection.NonKeyAttributes ?? [])]);
      this.#indexes.set(IndexName, { name: IndexName, hash, range, has });
    }
  }

  async #record({ TableName, Key, Item: put }: Write): Promise<void> {
    const from = Key ?? put ?? {};
    const key = Object.fromEntries(this.#key.map((name) => [name, from[name] ?? {}]));
    const { text } = await this.#forward("GetItem", { TableName, Key: key, ConsistentRead: true });
    const item = (JSON.parse(text) as { Item?: Item }).Item ?? null;
    const name = JSON.stringify(key);
    const versions = this.#items.get(name) ?? [];
    this.#items.set(name, versions);
    versions.push({ item, visibleAt: performance.now() + Math.random() * (this.#lagMs ?? 0) });
  }

  #query(index: Index, query: Query): ProxyResponse {
    const matches = conditionOf(query);
    const entries = [...this.#items.values()].flatMap((versions) => {
      const entry = visible(versions);
      return entry?.[index.hash] !== undefined && entry[index.range] !== undefined && matches(entry) ? [entry] : [];
    });
    const order = (item: Item): string => [index.range, ...this.#key].map((name) => item[name]?.S ?? "").join("\0");
    const after = query.ExclusiveStartKey === undefined ? null : order(query.ExclusiveStartKey);
    const isUp = query.ScanIndexForward !== false;
    const sorted = entries
      .filter((entry) => after === null || (isUp ? order(entry) > after : order(entry) < after))
      .toSorted((a, b) => (order(a) < order(b) === isUp ? -1 : 1));
    const page = sorted.slice(0, query.Limit);
    const last = page.length < sorted.length ? page.at(-1) : undefined;
    const cut = (item: Item, names: ReadonlySet<string>): Item =>
      Object.fromEntries(Object.entries(item).filter(([name]) => names.has(name)));
    const keys = new Set([index.hash, index.range, ...this.#key]);
    const output = {
      Items: page.map((item) => cut(item, index.has)),
      Count: page.length,
      ...(last !== undefined && { LastEvaluatedKey: cut(last, keys) }),
    };
    return { status: 200, date: undefined, text: JSON.stringify(output) };
  }
}

function writesOf({ operation, body }: SentRequest): Write[] {
  if (["PutItem", "UpdateItem", "DeleteItem"].includes(operation)) return [body as unknown as Write];
  if (operation !== "TransactWriteItems") return [];
  return (body["TransactItems"] as Record<string, Write>[]).flatMap(({ ConditionCheck: _, ...write }) =>
    Object.values(write),
  );
}

/** The item as an index shows it now. */
function visible(versions: Version[]): Item | null {
  const at = versions.findLastIndex(({ visibleAt }) => visibleAt <= performance.now());
  versions.splice(0, Math.max(0, at));
  return at < 0 ? null : (versions[0]?.item ?? null);
}

interface Query {
  KeyConditionExpression: string;
  ExpressionAttributeNames: Record<string, string>;
  ExpressionAttributeValues: Item;
  ExclusiveStartKey?: Item;
  ScanIndexForward?: boolean;
  Limit?: number;
}

/** `#a = :0 AND #b < :1`, and `#b BETWEEN :1 AND :2`. */
function conditionOf(query: Query): (item: Item) => boolean {
  const between = query.KeyConditionExpression.replace(/(#\w+) BETWEEN (:\w+) AND (:\w+)/, "$1 >= $2 AND $1 <= $3");
  const terms = between.split(" AND ").map((term) => {
    const [, name = "", operator = "", placeholder = ""] = /^(#\w+) (=|<=?|>=?) (:\w+)$/.exec(term) ?? [];
    const compare = COMPARED[operator];
    if (compare === undefined) throw new Error(`the proxy does not support this condition: ${term}`);
    const attribute = query.ExpressionAttributeNames[name] ?? "";
    const value = query.ExpressionAttributeValues[placeholder]?.S ?? "";
    return (item: Item): boolean => compare(item[attribute]?.S ?? "", value);
  });
  return (item) => terms.every((holds) => holds(item));
}
const COMPARED: Record<string, (a: string, b: string) => boolean> = {
  "=": (a, b) => a === b,
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
};
