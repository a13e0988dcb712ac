import type { JobDetail } from "holdfast/admin";
import { api } from "../../app/api.js";
import { countText } from "../../app/format.js";

/** Numbers of jobs, as text: "12", or "> 1,000" where the count stopped. */
export interface RelatedCounts {
  children?: string;
  fingerprint?: string;
  user?: string;
}

/** Where counts stop: enough to say that there are many. */
const MAX_COUNT = 1_000;

/** Loaded once per job: three bounded counts. */
export async function loadCounts({
  id,
  user,
  error,
}: Pick<JobDetail, "id" | "user" | "error">): Promise<RelatedCounts> {
  const count = async (conditions: { parent?: string; fingerprint?: string; user?: string }): Promise<string> =>
    countText(await api.jobs.count({ ...conditions, atMost: MAX_COUNT }));
  const fingerprint = error?.fingerprint ?? null;
  const [children, same, ofUser] = await Promise.all([
    count({ parent: id }),
    fingerprint === null ? undefined : count({ fingerprint }),
    user === null ? undefined : count({ user }),
  ]);
  return { children, ...(same !== undefined && { fingerprint: same }), ...(ofUser !== undefined && { user: ofUser }) };
}
