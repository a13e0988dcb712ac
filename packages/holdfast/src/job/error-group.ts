/** Failed attempts with the same fingerprint, as stores store them. */
export interface ErrorGroupRecord {
  /** See fingerprint.ts. */
  fingerprint: string;
  /** The job type; null for a group of all types. */
  type: string | null;
  /** The name of the error's class. */
  name: string | null;
  code: string | null;
  /** The message with placeholders for its variable parts. */
  message: string;
  /** The function and file in which it was thrown. */
  frame: string | null;
  /** Failed attempts. */
  count: number;
  firstAt: number;
  lastAt: number;
  /** A job that failed with it, and the message that it had. */
  job: string;
  example: string;
}
