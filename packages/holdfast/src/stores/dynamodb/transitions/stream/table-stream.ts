import { HoldfastError } from "../../../../errors.js";
import type { Table } from "../../connection/table.js";
import type { Streams } from "../../connection/streams.js";
import { Shards } from "./shards.js";

/** What Holdfast needs: the transition of a job is the difference of its images. */
export const VIEW_TYPE = "NEW_AND_OLD_IMAGES";

interface DescribedTable {
  Table?: {
    LatestStreamArn?: string;
    StreamSpecification?: { StreamEnabled?: boolean; StreamViewType?: string };
  };
}

/** The stream of a table. `disabled`: there is none. `unsuitable`: its records do not have both images. */
export type StreamState = "enabled" | "disabled" | "unsuitable";

/** Reads whether the table has a stream. */
export async function describeStream(table: Table): Promise<{ state: StreamState; arn: string | null }> {
  const { Table: found = {} } = (await table.send("DescribeTable", {})) as DescribedTable;
  const { StreamEnabled = false, StreamViewType } = found.StreamSpecification ?? {};
  const state = !StreamEnabled ? "disabled" : StreamViewType === VIEW_TYPE ? "enabled" : "unsuitable";
  return { state, arn: found.LatestStreamArn ?? null };
}

interface Parts {
  streams: Streams;
  /** False under a test clock: nothing is cached. */
  isLive: boolean;
}

// The table is described again after this long. That costs nothing.
const DESCRIBED_MS = 5_000;
// Without the package or the permission, the stream is tried again after this long.
const UNREADABLE_MS = 300_000;

/** The stream of the table, if this process can read it. */
export class TableStream {
  readonly #table: Table;
  readonly #parts: Parts;
  #described: { arn: string | null; at: number } | null = null;
  #unreadableAt = Number.NEGATIVE_INFINITY;
  #hasWarned = false;

  constructor(table: Table, parts: Parts) {
    this.#table = table;
    this.#parts = parts;
  }

  /** The stream as it was last described, without a request. */
  get known(): string | null {
    return this.#described?.arn ?? null;
  }

  /** The ARN of the stream; null if the table has none that this process can read. */
  async arn(): Promise<string | null> {
    const { isLive } = this.#parts;
    const now = performance.now();
    if (isLive && now - this.#unreadableAt < UNREADABLE_MS) return null;
    if (isLive && this.#described !== null && now - this.#described.at < DESCRIBED_MS) return this.#described.arn;
    const arn = await this.#readArn();
    this.#described = { arn, at: now };
    return arn;
  }

  async #readArn(): Promise<string | null> {
    try {
      const { state, arn } = await describeStream(this.#table);
      return state === "enabled" ? arn : null;
    } catch (error) {
      if (isDenied((error as Error).cause)) return null;
      throw error;
    }
  }

  /** Forgets the description, so that the next call reads it. */
  forget(): void {
    this.#described = null;
  }

  /** The shards of a stream. Null: this process cannot read it, or it does not exist any more. */
  shards(arn: string): Promise<Shards | null> {
    return this.ifReadable(async () => new Shards(await this.#parts.streams.shards(arn)));
  }

  /** Null, with one warning: the package or the permission is missing. Then followers use the recorded transitions. */
  async ifReadable<Result>(read: () => Promise<Result>): Promise<Result | null> {
    try {
      return await read();
    } catch (error) {
      if ((error as Error).name === "ResourceNotFoundException") return null;
      if (!(error instanceof HoldfastError) && !isRefused(error)) throw error;
      this.#unreadableAt = performance.now();
      this.#described = null;
      this.#warn(error as Error);
      return null;
    }
  }

  #warn(error: Error): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    process.emitWarning(
      `${this.#table.where} has a stream that cannot be read: ${error.message}. hf.follow uses records in the table instead, which ` +
        "cost write units; to switch this warning off, open the store with stream: false",
      { type: "HoldfastWarning", code: "STREAM_UNREADABLE" },
    );
  }
}

function isDenied(error: unknown): boolean {
  return (error as Error | undefined)?.name === "AccessDeniedException";
}

// Of an endpoint without DynamoDB Streams, or one that is not that of the table.
const REFUSALS: ReadonlySet<string> = new Set([
  "UnknownOperationException",
  "UnrecognizedClientException",
  "ValidationException",
]);
/** An endpoint without DynamoDB Streams, or without the permission. Sending the request again does not help. */
function isRefused(error: unknown): boolean {
  const { name } = error as Error;
  return isDenied(error) || REFUSALS.has(name);
}
