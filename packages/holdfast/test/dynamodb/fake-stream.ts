import type { Item } from "#src/stores/dynamodb/connection/attributes.js";
import type { ReadFrom, StreamRecord, Streams, StreamShard } from "#src/stores/dynamodb/connection/streams.js";
import type { Table } from "#src/stores/dynamodb/connection/table.js";
import { jobKey } from "#src/stores/dynamodb/jobs/item-keys.js";
import { StreamTransitions } from "#src/stores/dynamodb/transitions/stream/stream-transitions.js";
import { TableStream } from "#src/stores/dynamodb/transitions/stream/table-stream.js";

const ARN = "arn:aws:dynamodb:eu-central-1:1:table/jobs/stream/2026-01-01T00:00:00.000";

interface FakeShard extends StreamShard {
  records: StreamRecord[];
  isListed: boolean;
}

/**
 * A stream whose shards the test closes and splits, which DynamoDB Local never does. Its requests have the same results and errors as
 * those of DynamoDB Streams.
 */
export class FakeStream {
  readonly #shards = new Map<string, FakeShard>();
  readonly #iterators = new Map<string, { shard: FakeShard; at: number }>();
  #refusesNewest = false;
  readonly #trimmed = new Set<string>();
  /** The requests, as `<operation> <shard> <from>`. */
  readonly requests: string[] = [];
  readonly items = new Map<string, Item>();
  isEnabled = true;
  #sequence = 100_000_000_000_000_000_000n;
  #count = 0;
  /** The time of new records. */
  now: number = Date.now();

  open(id: string, parent: string | null = null, isListed = true): void {
    this.#shards.set(id, { id, parent, isClosed: false, records: [], isListed });
  }
  list(id: string): void {
    this.#shard(id).isListed = true;
  }
  close(id: string): void {
    this.#shard(id).isClosed = true;
  }
  /** The shard is older than a day. */
  forget(id: string): void {
    this.#shards.delete(id);
  }
  /** Its records are older than a day. */
  trim(id: string): void {
    this.#trimmed.add(id);
  }
  /** As DynamoDB Local does for a new stream of a table that had one before. */
  refuseNewest(): void {
    this.#refusesNewest = true;
  }
  /** Records the enqueue of a job. */
  enqueue(shard: string, job: string): void {
    const after: Item = {
      ...Object.fromEntries(Object.entries(jobKey(job)).map(([name, value]) => [name, { S: value }])),
      state: { S: "pending" },
      updated_at: { N: String(this.now + this.#count++) },
    };
    this.#shard(shard).records.push({ sequence: ++this.#sequence, createdAt: this.now, before: null, after });
  }
  expireIterators(): void {
    this.#iterators.clear();
  }

  #shard(id: string): FakeShard {
    const shard = this.#shards.get(id);
    if (shard === undefined) throw Object.assign(new Error("no such shard"), { name: "ResourceNotFoundException" });
    return shard;
  }

  #iteratorAt(shard: FakeShard, at: number): string {
    const iterator = `iterator ${this.#iterators.size + this.requests.length} ${shard.id}`;
    this.#iterators.set(iterator, { shard, at });
    return iterator;
  }

  readonly streams = {
    shards: async () => {
      this.requests.push("DescribeStream");
      return { isEnabled: this.isEnabled, shards: [...this.#shards.values()].filter(({ isListed }) => isListed) };
    },
    iterator: async (_arn: string, id: string, from: ReadFrom) => {
      this.requests.push(`GetShardIterator ${id} ${typeof from === "bigint" ? "after" : from}`);
      const shard = this.#shard(id);
      const { records } = shard;
      if (from === "oldest") return this.#iteratorAt(shard, 0);
      if (from === "newest") return this.#iteratorAt(shard, this.#refusesNewest ? -1 : records.length);
      if (this.#trimmed.has(id)) throw Object.assign(new Error("trimmed"), { name: "TrimmedDataAccessException" });
      const at = records.findIndex(({ sequence }) => sequence > from);
      return this.#iteratorAt(shard, at < 0 ? records.length : at);
    },
    records: async (iterator: string) => {
      const found = this.#iterators.get(iterator);
      if (found === undefined) throw Object.assign(new Error("expired"), { name: "ExpiredIteratorException" });
      const { shard, at } = found;
      this.requests.push(`GetRecords ${shard.id}`);
      if (at < 0) throw Object.assign(new Error("trimmed"), { name: "TrimmedDataAccessException" });
      // Fewer than DynamoDB's 1,000, so that several requests are needed.
      const records = shard.records.slice(at, at + 5);
      const end = at + records.length;
      const hasEnded = shard.isClosed && end === shard.records.length;
      return { records, next: hasEnded ? null : this.#iteratorAt(shard, end) };
    },
  } as unknown as Streams;

  /** A process that reads the stream. Under a test clock, as nothing waits then. */
  follow(): StreamTransitions {
    const table = {
      where: "table jobs",
      time: { offset: 0 },
      send: async () => ({
        Table: {
          LatestStreamArn: ARN,
          StreamSpecification: { StreamEnabled: true, StreamViewType: "NEW_AND_OLD_IMAGES" },
        },
      }),
      put: async (item: Item) => void this.items.set((item["pk"] as { S: string }).S, item),
      get: async ({ pk }: { pk: string }) => this.items.get(pk) ?? null,
    } as unknown as Table;
    const tableStream = new TableStream(table, { streams: this.streams, isLive: false });
    const closing = new AbortController().signal;
    return new StreamTransitions(table, {
      streams: this.streams,
      tableStream,
      time: () => this.now,
      isLive: false,
      closing,
    });
  }
}
