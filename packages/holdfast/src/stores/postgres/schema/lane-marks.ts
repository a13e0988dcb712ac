import type { Migration } from "./schema.js";

/** Rows of `deltas` get the id of their transaction, so that claims find the ones of new jobs; see live-lanes.ts. */
export const LANE_MARKS: Migration = {
  version: 4,
  name: "marks of new jobs",
  up: ({ schema: s }) => `
ALTER TABLE ${s}.deltas ADD COLUMN IF NOT EXISTS tx xid8 NOT NULL DEFAULT pg_catalog.pg_current_xact_id();
CREATE INDEX IF NOT EXISTS deltas_marks ON ${s}.deltas (tx) WHERE state = 'pending' AND n > 0;
CREATE INDEX IF NOT EXISTS lanes_paused ON ${s}.lanes (queue) WHERE paused;`,
  down: ({ schema: s }) => `
DROP INDEX ${s}.lanes_paused, ${s}.deltas_marks;
ALTER TABLE ${s}.deltas DROP COLUMN tx;`,
};
