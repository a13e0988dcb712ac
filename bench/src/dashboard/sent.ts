/** What a server has sent to its store. */
export interface Sent {
  /** Calls of the store. */
  calls: number;
  /** What the store made of them: SQL statements, or requests to DynamoDB. */
  queries: number;
}

/** A request to this path of the server returns it. */
export const SENT_PATH = "/bench/sent";
