import type { Database } from "better-sqlite3";
import { exclusivePragma } from "./exclusive-pragma.js";

/** Free pages that the file should always have: 256 KB. */
export const SPARE_PAGES = 64;
const NAME = "spare";

/**
 * Keeps free pages in the file, for a full disk. A checkpoint of the write-ahead log may have to grow the file, which needs
 * disk space. If the log itself has taken the last of the disk, neither could ever shrink. New pages come from the free
 * ones first, so the checkpoint succeeds without growing the file.
 *
 * The pages are written and checkpointed once: until then the file system has not allocated them.
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
    exclusivePragma(db, "wal_checkpoint(PASSIVE)");
    db.prepare("DELETE FROM holdfast_settings WHERE name = ?").run(NAME);
  } catch (error) {
    // The disk is full, or another process holds the lock: the next maintenance tries again.
    if (!/^SQLITE_(FULL|BUSY|IOERR|READONLY)/.test(String((error as { code?: unknown }).code))) throw error;
  }
}
