import type { Database } from "better-sqlite3";
import { briefly } from "./exclusive-pragma.js";

/** Free pages that the file always has, 256 KB of them. */
export const SPARE_PAGES = 64;
const NAME = "spare";

/**
 * Keeps free pages in the file. To fold the write-ahead log into a file that must grow for it takes room on the disk; where the log
 * itself has taken the last of it, that would never end. New pages are taken from the free ones first, so the file need not grow.
 *
 * They are written once and folded, or the disk would not have set the room aside.
 */
export function keepSparePages(db: Database): void {
  const free = db.pragma("freelist_count", { simple: true }) as number;
  if (free >= SPARE_PAGES / 2) return;
  const pageBytes = db.pragma("page_size", { simple: true }) as number;
  try {
    db.prepare("INSERT OR REPLACE INTO holdfast_settings (name, value) VALUES (?, hex(randomblob(?)))").run(
      NAME,
      (SPARE_PAGES * pageBytes) / 2,
    );
    briefly(db, "wal_checkpoint(PASSIVE)");
    db.prepare("DELETE FROM holdfast_settings WHERE name = ?").run(NAME);
  } catch (error) {
    // No room, or another process writes for long: the next upkeep tries again.
    if (!/^SQLITE_(FULL|BUSY|IOERR|READONLY)/.test(String((error as { code?: unknown }).code))) throw error;
  }
}
