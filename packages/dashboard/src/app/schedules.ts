import type { ScheduleSummary } from "holdfast/admin";
import type { RouteClient } from "./api.js";
import { signal } from "./signals.js";

const PAGE = 200;
const MAX_PAGES = 5;

export interface Schedules {
  /** By name. */
  schedules: ScheduleSummary[];
  isAll: boolean;
}

/** Whether more exist than are loaded: then the server searches them. */
export const isCut = signal(false);

/** `search`: only those with all of its words. */
export async function loadSchedules(client: RouteClient, search = ""): Promise<Schedules> {
  const schedules: ScheduleSummary[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < MAX_PAGES; page++) {
    const loaded: { schedules: ScheduleSummary[]; cursor: string | null } = await client.schedules.list({
      limit: PAGE,
      ...(search !== "" && { search }),
      ...(cursor !== null && { cursor }),
    });
    schedules.push(...loaded.schedules);
    ({ cursor } = loaded);
    if (cursor === null) break;
  }
  const isAll = cursor === null;
  if (search === "") isCut.value = !isAll;
  return { schedules, isAll };
}
