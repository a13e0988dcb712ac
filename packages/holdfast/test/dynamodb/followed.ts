import { UpdateTableCommand, type DynamoDBClient } from "@aws-sdk/client-dynamodb";
import type { Store, TransitionRecord } from "holdfast/store";
import { expect } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";

/** Reads a store's transitions from a cursor on. */
export class FollowedPages {
  readonly seen: TransitionRecord[] = [];
  readonly #store: Store;
  readonly #limit: number;
  cursor: string;

  constructor(store: Store, cursor: string, limit = 100) {
    this.#store = store;
    this.cursor = cursor;
    this.#limit = limit;
  }

  /** False: the cursor has expired. */
  async poll(): Promise<boolean> {
    const page = await this.#store.transitions(this.cursor, this.#limit);
    if (page === null) return false;
    this.cursor = page.cursor;
    this.seen.push(...page.transitions);
    return true;
  }

  async until(what: string, isDone: () => boolean, deadlineMs?: number): Promise<void> {
    await until(
      what,
      async () => {
        expect(await this.poll(), "the cursor has not expired").toBe(true);
        return isDone();
      },
      deadlineMs,
    );
  }

  untilState(id: string, to: string): Promise<void> {
    return this.until(`${id} to be ${to}`, () => this.statesOf(id).at(-1) === to);
  }

  statesOf(id: string): string[] {
    return this.seen.filter((each) => each.id === id).map(({ to }) => to);
  }
}

/** Switches the stream of a table on or off. */
export async function switchStream(client: DynamoDBClient, table: string, isOn: boolean): Promise<void> {
  const StreamSpecification = {
    StreamEnabled: isOn,
    ...(isOn && { StreamViewType: "NEW_AND_OLD_IMAGES" as const }),
  };
  await client.send(new UpdateTableCommand({ TableName: table, StreamSpecification }));
}
