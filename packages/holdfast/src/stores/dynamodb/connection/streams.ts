import { DriverMissingError, InvalidOptionError } from "../../../errors.js";
import type { Item } from "./attributes.js";
import type { DynamoClient, Sdk } from "./table.js";

/** A change of an item, as DynamoDB Streams returns it. */
export interface StreamRecord {
  sequence: bigint;
  /** When DynamoDB created the record, rounded down to the second, or by the emulator to the minute. */
  createdAt: number;
  /** Null: the item did not exist before. */
  before: Item | null;
  /** Null: the item was deleted. */
  after: Item | null;
}

export interface StreamShard {
  id: string;
  /** The shard whose records come before. It may not be listed any more. */
  parent: string | null;
  /** No records are added to it. */
  isClosed: boolean;
}

/** Where to begin to read a shard: after a record, at its oldest record, or after its newest. */
export type ReadFrom = bigint | "oldest" | "newest";

interface Connected {
  sdk: Sdk;
  client: DynamoClient;
}
interface Sends {
  send(command: object, options: { abortSignal: AbortSignal }): Promise<unknown>;
}
interface StreamsOptions {
  /** Loads the SDK and makes a client. */
  connect(): Promise<Connected>;
  requestTimeoutMs: number;
}

interface Described {
  StreamDescription?: {
    StreamStatus?: string;
    Shards?: { ShardId: string; ParentShardId?: string; SequenceNumberRange?: { EndingSequenceNumber?: string } }[];
    LastEvaluatedShardId?: string;
  };
}
interface Received {
  Records?: {
    dynamodb?: { SequenceNumber?: string; ApproximateCreationDateTime?: Date; OldImage?: Item; NewImage?: Item };
  }[];
  NextShardIterator?: string;
}

// DynamoDB refuses shorter ones.
const MIN_SEQUENCE_DIGITS = 21;

/** Sends requests to DynamoDB Streams. The client sends them again after a transient error. Errors are those of the SDK. */
export class Streams {
  readonly #options: StreamsOptions;
  #connected: Promise<Connected> | null = null;

  constructor(options: StreamsOptions) {
    this.#options = options;
  }

  /** All shards whose records are still stored. `isEnabled`: new records are added. */
  async shards(arn: string): Promise<{ isEnabled: boolean; shards: StreamShard[] }> {
    const shards: StreamShard[] = [];
    for (let after: string | undefined; ;) {
      const request = { StreamArn: arn, ...(after !== undefined && { ExclusiveStartShardId: after }) };
      const { StreamDescription: found = {} } = (await this.#send("DescribeStream", request)) as Described;
      for (const { ShardId: id, ParentShardId: parent = null, SequenceNumberRange: range } of found.Shards ?? [])
        shards.push({ id, parent, isClosed: range?.EndingSequenceNumber !== undefined });
      after = found.LastEvaluatedShardId;
      if (after === undefined) return { isEnabled: found.StreamStatus === "ENABLED", shards };
    }
  }

  /** An iterator, which is valid for 15 minutes. */
  async iterator(arn: string, shard: string, from: ReadFrom): Promise<string> {
    const where =
      from === "oldest"
        ? { ShardIteratorType: "TRIM_HORIZON" }
        : from === "newest"
          ? { ShardIteratorType: "LATEST" }
          : {
              ShardIteratorType: "AFTER_SEQUENCE_NUMBER",
              SequenceNumber: String(from).padStart(MIN_SEQUENCE_DIGITS, "0"),
            };
    const found = await this.#send("GetShardIterator", { StreamArn: arn, ShardId: shard, ...where });
    return (found as { ShardIterator: string }).ShardIterator;
  }

  /** Up to 1,000 records or 1 MB. `next` is null after the last record of a closed shard. One read request unit. */
  async records(iterator: string): Promise<{ records: StreamRecord[]; next: string | null }> {
    const { Records = [], NextShardIterator } = (await this.#send("GetRecords", {
      ShardIterator: iterator,
    })) as Received;
    const records = Records.flatMap(({ dynamodb: change }) =>
      change?.SequenceNumber === undefined
        ? []
        : [
            {
              sequence: BigInt(change.SequenceNumber),
              createdAt: change.ApproximateCreationDateTime?.getTime() ?? 0,
              before: change.OldImage ?? null,
              after: change.NewImage ?? null,
            },
          ],
    );
    return { records, next: NextShardIterator ?? null };
  }

  async #send(operation: string, request: object): Promise<unknown> {
    const { sdk, client } = await this.#connect();
    const Command = sdk[`${operation}Command`];
    if (Command === undefined) throw new Error(`the AWS SDK has no ${operation}Command`);
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), this.#options.requestTimeoutMs);
    try {
      return await (client as unknown as Sends).send(new Command(request), { abortSignal: limit.signal });
    } finally {
      clearTimeout(timer);
    }
  }

  #connect(): Promise<Connected> {
    const connected = (this.#connected ??= this.#options.connect());
    connected.catch(() => (this.#connected = null));
    return connected;
  }

  async close(isOwned: boolean): Promise<void> {
    const connected = await this.#connected?.catch(() => null);
    if (isOwned) connected?.client.destroy?.();
  }
}

const PACKAGE = "@aws-sdk/client-dynamodb-streams";
const TRIES = 3;

export interface ConnectStreams {
  /** The caller's client of DynamoDB Streams. */
  streamsClient: DynamoClient | undefined;
  /** The caller's client of the table. Its region, endpoint and credentials are used. */
  client: DynamoClient | undefined;
  region: string | undefined;
  endpoint: string | undefined;
}

/** Loads the SDK of DynamoDB Streams, and makes a client like that of the table. */
export async function connectStreams(given: ConnectStreams): Promise<Connected> {
  const sdk = await loadStreamsSdk();
  const { streamsClient, client, region, endpoint } = given;
  if (streamsClient !== undefined) return { sdk, client: streamsClient };
  const Client = sdk["DynamoDBStreamsClient"] as unknown as new (options: object) => DynamoClient;
  const { config } = (client ?? {}) as { config?: ClientConfig };
  if (client !== undefined && config === undefined)
    throw new InvalidOptionError(
      "client",
      "has no config for a client of DynamoDB Streams; set the option streamsClient",
    );
  const derived = config === undefined ? {} : optionsOf(config);
  const options = { ...derived, ...(region !== undefined && { region }), ...(endpoint !== undefined && { endpoint }) };
  return { sdk, client: new Client({ ...options, maxAttempts: TRIES }) };
}

interface ClientConfig {
  region?: unknown;
  credentials?: unknown;
  endpoint?: unknown;
  isCustomEndpoint?: boolean;
  tls?: unknown;
}

function optionsOf({ region, credentials, endpoint, isCustomEndpoint, tls }: ClientConfig): object {
  return {
    region,
    credentials,
    ...(tls !== undefined && { tls }),
    // Without one of the caller's, the two services have different endpoints.
    ...(isCustomEndpoint === true && endpoint !== undefined && { endpoint }),
  };
}

async function loadStreamsSdk(): Promise<Sdk> {
  try {
    return (await import("@aws-sdk/client-dynamodb-streams")) as unknown as Sdk;
  } catch (error) {
    throw DriverMissingError.notInstalled(PACKAGE, error);
  }
}
