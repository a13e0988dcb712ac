import { systemClock } from "../../clock.js";
import { ClosedError, DriverMissingError, InvalidOptionError } from "../../errors.js";
import type { Hint, Store } from "../../store.js";
import {
  cancelHints,
  fireHints,
  insertHints,
  reapHints,
  retryHints,
  scheduleHints,
  settleHints,
  WORK_NOW,
} from "../hints.js";
import { AuditLog } from "./audit.js";
import { Changes } from "./jobs/changes.js";
import { Claims } from "./jobs/claim.js";
import { ConfigKeeper } from "./connection/config.js";
import { Counts } from "./jobs/counts.js";
import { fault } from "./connection/errors.js";
import { HeldJobs } from "./jobs/lease-cache.js";
import { Inserts } from "./jobs/insert.js";
import { Leases } from "./jobs/leases.js";
import { readDynamoOptions, type DynamoOptions } from "./connection/options.js";
import { Queries } from "./jobs/queries.js";
import { cloudFormation, iamPolicy, migrate, pendingMigrations, terraform } from "./schema.js";
import { Schedules } from "./schedules.js";
import { statsOf } from "./jobs/stats.js";
import { Table, type DynamoClient, type Sdk } from "./connection/table.js";
import { cursorKey, Tokens } from "./tokens.js";
import { Upkeep } from "./jobs/maintenance.js";
import { heartbeat, deregister, workers } from "./jobs/workers.js";

/** The DynamoDB store, and what only it can do. */
export interface DynamoStore extends Store {
  /** The table for those who provision it elsewhere: a template of CloudFormation, in JSON. */
  cloudFormation(): string;
  /** The same for Terraform. */
  terraform(): string;
  /** The least that IAM must allow. Without `migrates`, the table must be there. */
  iamPolicy(options?: { migrates?: boolean }): string;
  /** How many parts each queue is split into, as the table has it. */
  shards(): Promise<number>;
}

/** Opens a store on a DynamoDB table. Nothing is touched before `migrate`. */
export function openDynamo(given: DynamoOptions): DynamoStore {
  const { client, region, endpoint, name, shards, marginMs, requests, answerMs, slack } = readDynamoOptions(given);
  const clock = given.clock ?? systemClock;
  const isLive = clock === systemClock;
  const table = new Table({
    name,
    where: `table ${name}${region === undefined ? "" : ` in ${region}`}${endpoint === undefined ? "" : ` at ${endpoint}`}`,
    requests,
    answerMs,
    connect: () => connect({ client, region, endpoint, requests }),
  });
  const time = (): number => (isLive ? Math.round(Date.now() + table.time.offset) : clock.now());
  const config = new ConfigKeeper(table, shards);
  const counts = new Counts(table, systemClock, COUNTED_MS);
  const jobs = new HeldJobs();
  const inserts = new Inserts(table, config);
  const claims = new Claims(table, config, jobs, { marginMs });
  const leases = new Leases(table, { counts, jobs, config }, { slack, marginMs });
  const changes = new Changes(table, { config, counts, inserts });
  const upkeep = new Upkeep(table, { config, counts, changes }, marginMs);
  const queries = new Queries(table, config);
  const schedules = new Schedules(table, { config, inserts });
  const audit = new AuditLog(table);
  const tokens = new Tokens(table);
  const listeners = new Set<(hint: Hint) => void>();
  const pending = new Set<Promise<unknown>>();
  let closing: Promise<void> | null = null;

  /** A call under way: closing waits for it. It begins once the time is known, for which any answer will do. */
  async function under<Answer>(work: () => Promise<Answer>, { timed = true } = {}): Promise<Answer> {
    if (closing !== null) throw new ClosedError("the store is closed", "open a new one");
    const call = timed && isLive && table.time.isUnsure ? config.read().then(work) : work();
    pending.add(call);
    clock.waitFor?.(call);
    try {
      return await call;
    } catch (error) {
      throw fault(error, table.where);
    } finally {
      pending.delete(call);
    }
  }

  /** Where a test's clock rules, what was counted is written at once. */
  async function counted<Answer>(work: () => Promise<Answer>): Promise<Answer> {
    const answer = await work();
    if (!isLive) await counts.flush();
    return answer;
  }

  function hint(...hints: Hint[]): void {
    if (hints.length === 0) return;
    queueMicrotask(() => {
      for (const each of hints) for (const listener of listeners) listener(each);
    });
  }

  async function close(): Promise<void> {
    listeners.clear();
    await Promise.allSettled(pending);
    // Jobs that were counted and not written are missing in the counts, nothing worse.
    await counts.stop().catch(() => {});
    await table.close(client === undefined);
  }

  return {
    capabilities: {
      transactions: false,
      synchronous: false,
      get strictOrder() {
        return config.atLeast === 1;
      },
      push: false,
      metered: true,
      exactCounts: false,
      together: false,
    },
    cloudFormation: () => cloudFormation(name),
    terraform: () => terraform(name),
    iamPolicy: (options) => iamPolicy(name, { region, ...options }),
    shards: () => under(async () => (await config.read()).shards),
    // What is over by a test's clock is not by DynamoDB's, and the other way round.
    migrate: () => under(() => migrate(table, config, { clearsAway: isLive }), { timed: false }),
    pendingMigrations: () => under(() => pendingMigrations(table, { clearsAway: isLive }), { timed: false }),
    close: () => (closing ??= close()),

    insert: (given) =>
      under(async () => {
        if (given.length === 0) return [];
        const now = time();
        const answers = await inserts.insert(given, now);
        hint(...insertHints(given, answers, now));
        return answers;
      }),
    insertIn: () =>
      under(() => Promise.reject(new InvalidOptionError("tx", "DynamoDB has no transaction that stays open"))),
    claim: (request) => under(() => claims.claim(request, time())),
    start: (marks) => under(() => leases.start(marks, time())),
    extend: (refs, leaseMs) => under(() => leases.extend(refs, leaseMs, time())),
    settle: (outcomes) =>
      under(() =>
        counted(async () => {
          const answers = await leases.settle(outcomes, time());
          hint(...settleHints(outcomes));
          return answers;
        }),
      ),
    settleIn: () =>
      under(() => Promise.reject(new InvalidOptionError("tx", "DynamoDB has no transaction that stays open"))),
    note: (notes) => under(() => leases.note(notes, time())),

    get: (id, scope) => under(() => queries.get(id, scope ?? {}, time())),
    list: (filter, page) => under(() => queries.list(filter, page, time())),
    cancel: (ids, scope) =>
      under(() =>
        counted(async () => {
          const answers = await changes.cancel(ids, scope ?? {}, time());
          hint(...cancelHints(ids, answers));
          return answers;
        }),
      ),
    retry: (ids, scope) =>
      under(async () => {
        const answers = await changes.retry(ids, scope ?? {}, time());
        hint(...retryHints(answers));
        return answers;
      }),
    remove: (ids, scope) => under(() => counted(() => changes.remove(ids, scope ?? {}, time()))),

    reapExpiredLeases: (limit) =>
      under(() =>
        counted(async () => {
          const laidDown = await upkeep.reapExpiredLeases(limit, time());
          hint(...reapHints(laidDown));
          return laidDown;
        }),
      ),
    expireOverdue: (limit) =>
      under(() =>
        counted(async () => {
          const laidDown = await upkeep.expireOverdue(limit, time());
          hint(...reapHints(laidDown));
          return laidDown;
        }),
      ),
    purge: (request) => under(() => counted(() => upkeep.purge(request, time()))),
    maintain: () => under(() => upkeep.tidy(time())),
    tryAcquireDuty: (turn, everyMs) => under(() => upkeep.tryAcquireDuty(turn, everyMs, time())),

    stats: () => under(() => statsOf(table, config, counts, time())),
    pause: (queue) => under(() => config.pause(queue, time())),
    resume: (queue) =>
      under(async () => {
        await config.resume(queue);
        hint(WORK_NOW);
      }),
    queues: () => under(() => config.queues()),

    putSchedule: (schedule, version) =>
      under(async () => {
        const answer = await schedules.put(schedule, version, time());
        hint(...scheduleHints(answer));
        return answer;
      }),
    getSchedule: (schedule) => under(() => schedules.get(schedule)),
    listSchedules: (filter, page) => under(() => schedules.list(filter, page)),
    removeSchedule: (schedule) =>
      under(async () => {
        const removed = await schedules.remove(schedule);
        hint(...scheduleHints(removed));
        return removed;
      }),
    dueSchedules: (limit) => under(() => schedules.due(limit, time())),
    fire: (firings) =>
      under(async () => {
        const now = time();
        const answers = await schedules.fire(firings, now);
        hint(...fireHints(firings, answers, now));
        return answers;
      }),

    heartbeat: (worker) => under(() => heartbeat(table, worker, time())),
    deregister: (worker) => under(() => deregister(table, worker, time())),
    workers: () => under(() => workers(table, time())),

    audit: (entries) => under(() => audit.append(entries, time())),
    listAudit: (filter, page) => under(() => audit.list(filter, page, time())),
    purgeAudit: (request) => under(() => audit.purge(request), { timed: false }),
    putToken: (token) => under(() => tokens.put(token), { timed: false }),
    getToken: (id) => under(() => tokens.get(id), { timed: false }),
    listTokens: () => under(() => tokens.list(), { timed: false }),
    removeToken: (id) => under(() => tokens.remove(id), { timed: false }),
    cursorKey: () => under(() => cursorKey(table), { timed: false }),

    listen(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

// How long completed jobs are counted before that is written.
const COUNTED_MS = 1_000;
const CONNECT_MS = 3_000;

interface Connecting {
  client: DynamoClient | undefined;
  region: string | undefined;
  endpoint: string | undefined;
  requests: number;
}

async function connect({
  client,
  region,
  endpoint,
  requests,
}: Connecting): Promise<{ sdk: Sdk; client: DynamoClient }> {
  const sdk = await loadSdk();
  if (client !== undefined) return { sdk, client };
  const Client = sdk["DynamoDBClient"] as unknown as new (options: object) => DynamoClient;
  const options = {
    ...(region !== undefined && { region }),
    ...(endpoint !== undefined && { endpoint }),
    // What is worth a second try is decided here.
    maxAttempts: 1,
    requestHandler: {
      connectionTimeout: CONNECT_MS,
      httpAgent: { maxSockets: requests, keepAlive: true },
      httpsAgent: { maxSockets: requests, keepAlive: true },
    },
  };
  const made = new Client(options) as DynamoClient & { config: { region(): Promise<string> } };
  await made.config.region().catch(() => {
    throw new InvalidOptionError(
      "region",
      "is not known; pass it, as in dynamodb://jobs?region=eu-central-1, or set AWS_REGION",
    );
  });
  return { sdk, client: made };
}

async function loadSdk(): Promise<Sdk> {
  try {
    return (await import("@aws-sdk/client-dynamodb")) as unknown as Sdk;
  } catch (error) {
    throw DriverMissingError.notInstalled("@aws-sdk/client-dynamodb", error);
  }
}
