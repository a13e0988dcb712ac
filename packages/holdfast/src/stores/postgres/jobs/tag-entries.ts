/**
 * The table of tags lists the jobs of a tag in order. It lists the children of a job too, under a name that no tag can have:
 * indexes on the parent would make every claim and every outcome slower, and few jobs have one.
 */
const PARENT = "parent ";
const SEPARATOR = 31;

/** The name of the entries for the children of a job. */
export function childrenEntry(parent: string): string {
  return `${String.fromCharCode(SEPARATOR)}${PARENT}${parent.toLowerCase()}`;
}

/** How the names of all such entries start, as SQL. */
export const CHILDREN_PREFIX: string = `pg_catalog.chr(${SEPARATOR}) || '${PARENT}'`;

/** The names of a job's entries in the table of tags, as SQL over its row; NULL if it has none. */
export function tagEntries(row: string): string {
  const entry = `${CHILDREN_PREFIX} || ${row}.parent::text`;
  return `CASE WHEN ${row}.parent IS NULL THEN ${row}.tags ELSE pg_catalog.array_append(${row}.tags, ${entry}) END`;
}
