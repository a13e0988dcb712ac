import { isApiPath } from "../contract/routes.js";
import { isAsset, isView } from "../dashboard/dashboard.js";

/**
 * Removes the base path from a path that includes it. Some frameworks strip it when they mount an application, others do not, and it may be
 * the name of a view: below `/jobs`, `/jobs/0199…` is the view of a job without the base path, and `/jobs/queues` the view of queues
 * with it. So what remains decides.
 */
export function pathBelow(basePath: string, path: string): string {
  if (!path.startsWith(`${basePath}/`)) return path;
  const below = path.slice(basePath.length);
  const isPage = (one: string): boolean => isAsset(one) || isView(one);
  if (isApiPath(below)) return below;
  return isApiPath(path) || (isPage(path) && !isPage(below)) ? path : below;
}
