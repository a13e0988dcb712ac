/**
 * A reading that is good for a while: however many ask at once or one after the other, it is made once in `forMs`. One that
 * fails is made again by whoever asks next.
 */
export function remembered<Value>(
  read: () => Promise<Value>,
  forMs: number,
  now: () => number = () => performance.now(),
): () => Promise<Value> {
  let last: { value: Promise<Value>; until: number } | null = null;
  return () => {
    if (last !== null && now() < last.until) return last.value;
    const made = { value: read(), until: now() + forMs };
    last = made;
    made.value.catch(() => {
      if (last === made) last = null;
    });
    return made.value;
  };
}
