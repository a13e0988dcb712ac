import { createHash } from "node:crypto";
import type { Statement } from "./db.js";

/** What statements are made with: the schema's name, and the type of users. */
export interface Sql {
  /** The schema, quoted. */
  s: string;
  user: string;
  /** A statement under a name that no other text has. */
  statement(name: string, text: string): Statement;
}

export function sqlFor(schema: string, user: string): Sql {
  return {
    s: schema,
    user,
    statement(name, text) {
      const hash = createHash("sha256").update(text).digest("hex").slice(0, 12);
      return { name: `holdfast_${name}_${hash}`, text };
    },
  };
}

/**
 * The time of a statement, in milliseconds: the server's own, or the first value where a test's clock rules. Read once,
 * so that the planner can use it for an index.
 */
export const NOW: string =
  "t AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)";

export const LEASED = "('claimed', 'running')";
export const WAITING = "('pending', 'failed')";
