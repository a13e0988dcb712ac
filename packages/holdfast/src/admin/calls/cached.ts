/**
 * Caches the result of `read` for `forMs`. Concurrent and later calls within that time share one read. A failed read is not
 * cached: the next call reads again.
 */
export function cached<Value>(
  read: () => Promise<Value>,
  forMs: number,
  now: () => number = () => performance.now(),
): () => Promise<Value> {
  let last: { value: Promise<Value>; until: number } | null = null;
  return () => {
    if (last !== null && now() < last.until) return last.value;
    const current = { value: read(), until: now() + forMs };
    last = current;
    current.value.catch(() => {
      if (last === current) last = null;
    });
    return current.value;
  };
}
