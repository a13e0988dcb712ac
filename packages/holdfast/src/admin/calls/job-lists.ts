import { countJobs } from "../../engine/client/count-jobs.js";
import { readListFilter, readListOptions } from "../../engine/client/filter.js";
import { isSearch } from "../../engine/client/search-condition.js";
import { engineOf } from "../../engine/client/holdfast.js";
import type { Identity } from "../auth/identity.js";
import type { Calls, CountResult, JobConditions, JobListResult, JobQuery } from "../contract/api-types.js";
import { MAX_COUNT, PAGE_SIZE } from "../contract/schemas.js";
import { ApiError } from "../http/api-error.js";
import { filledPage, skip } from "../http/list-paging.js";
import { filterOf, invalidField, visibleInput, type CallContext } from "./call-context.js";
import { jobSummary } from "./serializers.js";

/** `jobs.list`. */
export async function list(context: CallContext, query: JobQuery): Promise<JobListResult> {
  const { hf, identity, redact } = context;
  const { limit = PAGE_SIZE.default, offset = 0, cursor = null, order = "newest", ...conditions } = query;
  const engine = engineOf(hf);
  const { filter, page } = readListOptions(
    { ...filterOf(ofCaller(identity, conditions)), limit, cursor, order, payloads: false },
    engine.clock.now(),
  );
  if (offset > 0) {
    if (page.cursor !== null) throw invalidField("offset", "cannot be combined with cursor");
    if (isSearch(filter)) throw invalidField("offset", "cannot be combined with input or error; use cursor pagination");
    page.cursor = await skip(engine, filter, page, offset);
    if (page.cursor === null) return { jobs: [], cursor: null, examined: 0 };
  }
  const { jobs, ...others } = await filledPage(engine, filter, page, visibleInput(context));
  const shown = jobs.map((job) => jobSummary(job, redact));
  return { jobs: identity.role === "user" ? shown.map(withoutWorker) : shown, ...others };
}

/** `jobs.count`. */
export async function count(context: CallContext, input: Calls["jobs.count"]["input"]): Promise<CountResult> {
  const { atMost = MAX_COUNT.default, ...conditions } = input;
  const { identity } = context;
  const engine = engineOf(context.hf);
  const filter = readListFilter(filterOf(ofCaller(identity, conditions)), engine.clock.now());
  const most = identity.role === "user" ? MAX_COUNT.user : MAX_COUNT.all;
  return countJobs(engine, filter, { atMost: Math.min(atMost, most) }, visibleInput(context));
}

/** Limits the conditions to the jobs that the caller may access. */
function ofCaller({ user }: Identity, conditions: JobConditions): JobConditions {
  if (user === null) return conditions;
  if (conditions.user !== undefined && conditions.user !== user) {
    throw new ApiError(403, "FORBIDDEN", `user: this token can only list jobs of user ${user}`);
  }
  return { ...conditions, user };
}

/** The role user must not see host names, stack traces or other internals of the deployment. */
export function withoutWorker<Job extends { worker: string | null }>(job: Job): Job {
  return { ...job, worker: null };
}
