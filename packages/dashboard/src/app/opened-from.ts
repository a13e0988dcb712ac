/** The list that a job was opened from, for "previous", "next" and the way back. Lost when the page is loaded again. */
let list: { href: string; ids: readonly string[] } | null = null;

/** Called by lists of jobs, with the ids that they show, in their order. */
export function rememberList(href: string, ids: readonly string[]): void {
  list = { href, ids };
}

/** The neighbours of a job in the last list. */
export function placeOf(id: string): { href: string; previous: string | null; next: string | null } | null {
  const at = list?.ids.indexOf(id) ?? -1;
  if (list === null || at < 0) return null;
  return { href: list.href, previous: list.ids[at - 1] ?? null, next: list.ids[at + 1] ?? null };
}
