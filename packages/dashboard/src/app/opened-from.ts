/** The ids in the list that a job was opened from, for "previous" and "next". Lost when the page is loaded again. */
let list: readonly string[] = [];

/** Called by lists of jobs, with the ids that they show, in their order. */
export function rememberList(ids: readonly string[]): void {
  list = ids;
}

/** The neighbours of a job in the last list. */
export function placeOf(id: string): { previous: string | null; next: string | null } | null {
  const at = list.indexOf(id);
  return at < 0 ? null : { previous: list[at - 1] ?? null, next: list[at + 1] ?? null };
}
