/** The part of a `pg` pool that this needs. */
interface ListeningPool {
  on?(event: "error", listener: (error: Error) => void): unknown;
}

const guarded = new WeakSet<ListeningPool>();

/**
 * A pool replaces an idle connection that breaks; without an error listener, that would end the process. Added once for each pool and
 * never removed: a released connection may still break after its user has closed.
 */
export function guardPool(pool: ListeningPool): void {
  if (guarded.has(pool)) return;
  guarded.add(pool);
  pool.on?.("error", () => {});
}
