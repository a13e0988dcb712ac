/** The known name most similar to a misspelled one, or null if none is similar. */
export function nearest(given: string, known: readonly string[]): string | null {
  const typed = given.toLowerCase();
  let best: { name: string; distance: number } | null = null;
  for (const name of known) {
    // Up to a third of the letters may differ.
    const maxDistance = Math.max(1, Math.floor(Math.max(typed.length, name.length) / 3));
    const distance = distanceOf(typed, name.toLowerCase());
    if (distance <= maxDistance && (best === null || distance < best.distance)) best = { name, distance };
  }
  return best?.name ?? null;
}

/** `; did you mean x?`, or an empty string. */
export function didYouMean(given: string, known: readonly string[]): string {
  const name = nearest(given, known);
  return name === null ? "" : `; did you mean ${name}?`;
}

/** The edit distance: letters inserted, deleted, replaced or swapped with their neighbour. */
function distanceOf(a: string, b: string): number {
  if (a.length > MAX_LENGTH || b.length > MAX_LENGTH) return Number.POSITIVE_INFINITY;
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let smallest = Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        smallest = Math.min(smallest, (before[j - 2] ?? 0) + 1);
      }
      next.push(smallest);
    }
    before = row;
    row = next;
  }
  return row[b.length] ?? 0;
}

const MAX_LENGTH = 200;
