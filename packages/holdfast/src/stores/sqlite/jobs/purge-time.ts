/**
 * The purge time of a job that ends in `state` at `finishedAt`, as SQL: by its own settings, NULL for most jobs. Both arguments
 * are SQL expressions.
 */
export function purgeTime(state: string, finishedAt: string): string {
  return `CASE WHEN settings IS NULL THEN NULL ELSE ${finishedAt} + json_extract(settings, '$.keepMs.' || ${state}) END`;
}
