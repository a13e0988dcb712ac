/** Ends the walk with a sentence if something is not as the story says. */
export function check(holds: boolean, sentence: string): asserts holds {
  if (!holds) throw new Error(sentence);
}

/** Compares values as JSON. */
export function checkEqual(what: string, found: unknown, expected: unknown): void {
  const [is, wanted] = [JSON.stringify(found), JSON.stringify(expected)];
  check(is === wanted, `${what}: expected ${wanted}, found ${is}.`);
}
