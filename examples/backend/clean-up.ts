import { housekeeping, type Housekeeping } from "@holdfast/housekeeping";
import type { Pool } from "pg";

/** The four clean-up jobs of the backend, with their schedules. */
export function createCleanUp(pool: Pool): Housekeeping {
  return housekeeping({
    db: pool,
    tablePrefix: "app_",
    presets: { sessions: true, webhookDeliveries: { retentionHours: 168 }, oauth: true, auth: true },
  });
}
