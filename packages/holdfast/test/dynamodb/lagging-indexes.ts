import type { Answer, Asked } from "./proxy.js";

type Item = Record<string, { S?: string }>;
interface Index {
  name: string;
  hash: string;
  range: string;
  /** Attributes that its entries have. */
  has: ReadonlySet<string>;
}
/** An item as a write left it; null: gone. Indexes know of it from `seenAt` on. */
interface Version {
  item: Item | null;
  seenAt: number;
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
 * Indexes that are behind their table, as DynamoDB's may be and its emulator's never are: of each write they know only
 * after a while. So an entry appears late, or in its old form or place, and lingers when its item has left.
 */
export class LaggingIndexes {
  readonly #pass: (operation: string, body: object) => Promise<Answer>;
  readonly #indexes = new Map<string, Index>();
  readonly #items = new Map<string, Version[]>();
  #key: string[] = [];
  #lagMs: number | null = null;
  #writing: Promise<unknown> = Promise.resolve();

  constructor(pass: (operation: string, body: object) => Promise<Answer>) {
    this.#pass = pass;
  }

  lag(ms: number): void {
    this.#lagMs = ms;
  }

  /** The answer to a request, for which `pass` asks DynamoDB. */
  async answer(asked: Asked, pass: () => Promise<Answer>): Promise<Answer> {
    const { operation, body } = asked;
    if (operation === "CreateTable") this.#learn(body as unknown as CreateTable);
    if (this.#lagMs === null) return pass();
    const index = this.#indexes.get(String(body["IndexName"]));
    if (operation === "Query" && index !== undefined) return this.#query(index, body as unknown as Query);
    const written = writesOf(asked);
    if (written.length === 0) return pass();
    // One after the other: what a write left must be read before the next changes it.
    const answer = this.#writing.then(async () => {
      const said = await pass();
      if (said.status === 200) await Promise.all(written.map((write) => this.#see(write)));
      return said;
    });
    this.#writing = answer.catch(() => {});
    return answer;
  }

  #learn({ KeySchema, GlobalSecondaryIndexes = [] }: CreateTable): void {
    const names = (schema: { AttributeName: string }[]): string[] => schema.map(({ AttributeName }) => AttributeName);
    this.#key = names(KeySchema);
    for (const { IndexName, KeySchema: keys, Projection } of GlobalSecondaryIndexes) {
      const [hash = "", range = ""] = names(keys);
      const has = new Set([...this.#key, hash, range, ...(Projection.NonKeyAttributes ?? [])]);
      this.#indexes.set(IndexName, { name: IndexName, hash, range, has });
    }
  }

  async #see({ TableName, Key, Item: put }: Write): Promise<void> {
    const from = Key ?? put ?? {};
    const key = Object.fromEntries(this.#key.map((name) => [name, from[name] ?? {}]));
    const { text } = await this.#pass("GetItem", { TableName, Key: key, ConsistentRead: true });
    const item = (JSON.parse(text) as { Item?: Item }).Item ?? null;
    const name = JSON.stringify(key);
    const versions = this.#items.get(name) ?? [];
    this.#items.set(name, versions);
    versions.push({ item, seenAt: performance.now() + Math.random() * (this.#lagMs ?? 0) });
  }

  #query(index: Index, query: Query): Answer {
    const isMeant = conditionOf(query);
    const entries = [...this.#items.values()].flatMap((versions) => {
      const entry = seen(versions);
      return entry?.[index.hash] !== undefined && entry[index.range] !== undefined && isMeant(entry) ? [entry] : [];
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
    const answer = {
      Items: page.map((item) => cut(item, index.has)),
      Count: page.length,
      ...(last !== undefined && { LastEvaluatedKey: cut(last, keys) }),
    };
    return { status: 200, date: undefined, text: JSON.stringify(answer) };
  }
}

function writesOf({ operation, body }: Asked): Write[] {
  if (["PutItem", "UpdateItem", "DeleteItem"].includes(operation)) return [body as unknown as Write];
  if (operation !== "TransactWriteItems") return [];
  return (body["TransactItems"] as Record<string, Write>[]).flatMap(({ ConditionCheck: _, ...write }) =>
    Object.values(write),
  );
}

/** The item as an index knows it by now. */
function seen(versions: Version[]): Item | null {
  const at = versions.findLastIndex(({ seenAt }) => seenAt <= performance.now());
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
    const [, name = "", operator = "", place = ""] = /^(#\w+) (=|<=?|>=?) (:\w+)$/.exec(term) ?? [];
    const compare = COMPARED[operator];
    if (compare === undefined) throw new Error(`the proxy does not know this condition: ${term}`);
    const attribute = query.ExpressionAttributeNames[name] ?? "";
    const value = query.ExpressionAttributeValues[place]?.S ?? "";
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
