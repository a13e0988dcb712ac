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
  updateHints,
  WORK_NOW,
} from "../hints.js";
import { AuditLog } from "./audit.js";
import { countAhead } from "./jobs/count-ahead.js";
import { ErrorGroups } from "./error-groups.js";
import { HistoryRecords } from "./history-records.js";
import { Changes } from "./jobs/changes.js";
import { Claims } from "./jobs/claim.js";
import { SharedConfig } from "./connection/config.js";
import { Counts } from "./jobs/counts.js";
import { storeError } from "./connection/errors.js";
import { LeaseCache } from "./jobs/lease-cache.js";
import { Inserts } from "./jobs/insert.js";
import { Leases } from "./jobs/leases.js";
import { readDynamoOptions, type DynamoOptions } from "./connection/options.js";
import { Queries } from "./jobs/queries.js";
import { cloudFormation, iamPolicy, migrate, pendingMigrations, terraform } from "./schema.js";
import { Schedules } from "./schedules.js";
import { statsOf } from "./jobs/stats.js";
import { Table, type DynamoClient, type Sdk } from "./connection/table.js";
import { StoredOperations } from "./stored-operations.js";
import { cursorKey, Tokens } from "./tokens.js";
import { connectStreams, Streams } from "./connection/streams.js";
import { FollowedTransitions } from "./transitions/followed-transitions.js";
import { describeStream, type StreamState } from "./transitions/stream/table-stream.js";
import type { TransitionLog } from "./transitions/transition-log.js";
import { Maintenance } from "./jobs/maintenance.js";
import { childHints, outcomeForHints } from "./steps/step-hints.js";
import { Steps } from "./steps/steps.js";
import { Waits } from "./steps/waits.js";
import { heartbeat, deregister, drainWorker, workers } from "./jobs/workers.js";

/** The DynamoDB store, with methods that other stores do not have. */
export interface DynamoStore extends Store {
  /** A CloudFormation template of the table, in JSON. */
  cloudFormation(): string;
  /** A Terraform resource of the table. */
  terraform(): string;
  /**
   * The IAM policy with the least permissions. `migrates` (default true) includes creating and changing the table, `stream` (default:
   * as the option of the store) reading its stream.
   */
  iamPolicy(options?: { migrates?: boolean; stream?: boolean }): string;
  /** The stream of the table. `unsuitable`: its records do not have the old and the new image, so it is not read. */
  stream(): Promise<StreamState>;
  /** How many shards each queue is split into, as stored in the table. */
  shards(): Promise<number>;
}

/** Opens a store on a DynamoDB table. Sends no request before its first call. */
export function openDynamo(given: DynamoOptions): DynamoStore {
  const { client, region, endpoint, name, shards, marginMs, requests, requestTimeoutMs, slack, stream, ...settings } =
    readDynamoOptions(given);
  const { streamsClient } = settings;
  const clock = given.clock ?? systemClock;
  const isLive = clock === systemClock;
  const table = new Table({
    name,
    where: `table ${name}${region === undefined ? "" : ` in ${region}`}${endpoint === undefined ? "" : ` at ${endpoint}`}`,
    requests,
    requestTimeoutMs,
    connect: () => connect({ client, region, endpoint, requests }),
  });
  const time = (): number => (isLive ? Math.round(Date.now() + table.time.offset) : clock.now());
  const config = new SharedConfig(table, shards);
  const counts = new Counts(table, systemClock, COUNTED_MS);
  const leaseCache = new LeaseCache();
  const stopping = new AbortController();
  const streams = new Streams({
    connect: () => connectStreams({ streamsClient, client, region, endpoint }),
    requestTimeoutMs,
  });
  const transitions: TransitionLog = new FollowedTransitions(table, {
    config,
    time,
    isLive,
    closing: stopping.signal,
    streams: stream === false ? null : streams,
  });
  const waits = new Waits(table, config, () => hint(WORK_NOW));
  const inserts = new Inserts(table, config, transitions);
  const claims = new Claims(table, { config, leaseCache, transitions }, { marginMs });
  const leases = new Leases(table, { counts, leaseCache, config, transitions, waits }, { slack, marginMs });
  const changes = new Changes(table, { config, counts, inserts, transitions, waits });
  const maintenance = new Maintenance(table, { config, counts, changes, transitions, waits }, marginMs);
  const steps = new Steps(table, { config, inserts, leaseCache, waits });
  const queries = new Queries(table, config);
  const schedules = new Schedules(table, { config, inserts });
  const audit = new AuditLog(table);
  const tokens = new Tokens(table);
  const operations = new StoredOperations(table);
  const errorGroups = new ErrorGroups(table);
  const history = new HistoryRecords(table);
  const listeners = new Set<(hint: Hint) => void>();
  const pending = new Set<Promise<unknown>>();
  let closing: Promise<void> | null = null;

  /**
   * Runs a call of the store. `close` waits for it. A call that needs the time first waits for any response, which has
   * it (see ServerTime).
   */
  async function run<Result>(work: () => Promise<Result>, { needsTime = true } = {}): Promise<Result> {
    if (closing !== null) throw new ClosedError("the store is closed", "open a new one");
    const call = needsTime && isLive && table.time.isUnknown ? config.read().then(work) : work();
    pending.add(call);
    clock.waitFor?.(call);
    try {
      return await call;
    } catch (error) {
      throw storeError(error, table.where);
    } finally {
      pending.delete(call);
    }
  }

  /** Runs a call that may change the state of jobs. With a test clock, counts and transitions are written before it returns. */
  function change<Result>(work: () => Promise<Result>): Promise<Result> {
    return run(async () => {
      const result = await work();
      if (!isLive) await Promise.all([counts.flush(), transitions.flush()]);
      return result;
    });
  }

  function hint(...hints: Hint[]): void {
    if (hints.length === 0) return;
    queueMicrotask(() => {
      for (const each of hints) for (const listener of listeners) listener(each);
    });
  }

  async function close(): Promise<void> {
    listeners.clear();
    stopping.abort();
    await Promise.allSettled(pending);
    await transitions.stop();
    await streams.close(streamsClient === undefined);
    // If this fails, only the counts of completed jobs are too low.
    await counts.stop().catch(() => {});
    await table.close(client === undefined);
  }

  return {
    capabilities: {
      transactions: false,
      synchronous: false,
      get strictOrder() {
        return config.minShards === 1;
      },
      push: false,
      metered: true,
      exactCounts: false,
      together: false,
      orderedTransitions: false,
    },
    cloudFormation: () => cloudFormation(name, { stream: stream === true }),
    terraform: () => terraform(name, { stream: stream === true }),
    iamPolicy: (options) => iamPolicy(name, { region, stream: stream === true, ...options }),
    stream: () => run(async () => (await describeStream(table)).state, { needsTime: false }),
    shards: () => run(async () => (await config.read()).shards),
    // DynamoDB's time to live uses its own clock, so it stays off under a test clock.
    migrate: () => run(() => migrate(table, config, { ttl: isLive, stream: stream === true }), { needsTime: false }),
    pendingMigrations: () =>
      run(() => pendingMigrations(table, { ttl: isLive, stream: stream === true }), { needsTime: false }),
    close: () => (closing ??= close()),

    insert: (given) =>
      change(async () => {
        if (given.length === 0) return [];
        const now = time();
        const results = await inserts.insert(given, now);
        hint(...insertHints(given, results, now));
        return results;
      }),
    insertIn: () => run(noTransactions),
    claim: (request) => change(() => claims.claim(request, time())),
    start: (marks) => change(() => leases.start(marks, time())),
    extend: (refs, leaseMs) => run(() => leases.extend(refs, leaseMs, time())),
    settle: (outcomes) =>
      change(async () => {
        const now = time();
        const results = await leases.settle(outcomes, now);
        hint(...settleHints(outcomes.flatMap((outcome) => outcomeForHints(outcome, now))));
        return results;
      }),
    settleIn: () => run(noTransactions),
    note: (notes) => run(() => leases.note(notes, time())),

    get: (id, scope) => run(() => queries.get(id, scope ?? {}, time())),
    list: (filter, page) => run(() => queries.list(filter, page, time())),
    cancel: (ids, scope) =>
      change(async () => {
        const results = await changes.cancel(ids, scope ?? {}, time());
        hint(...cancelHints(ids, results));
        return results;
      }),
    retry: (ids, scope) =>
      change(async () => {
        const results = await changes.retry(ids, scope ?? {}, time());
        hint(...retryHints(results));
        return results;
      }),
    update: (updates, scope) =>
      run(async () => {
        const now = time();
        const results = await changes.update(updates, scope ?? {}, now);
        hint(...updateHints(updates, results, now));
        return results;
      }),
    steps: (id) => run(() => steps.read(id, time())),
    saveSteps: (writes) =>
      change(async () => {
        const now = time();
        const results = await steps.save(writes, now);
        hint(...childHints(writes, results, now));
        return results;
      }),
    saveStepIn: () => run(noTransactions),
    openChildren: (ids, limit) => run(() => steps.openChildren(ids, limit), { needsTime: false }),
    emit: (events) => run(() => waits.emit(events, time())),
    emitIn: () => run(noTransactions),
    // DynamoDB's time to live deletes them.
    purgeEvents: () => run(async () => 0, { needsTime: false }),
    repairWaits: (limit) => run(() => waits.repair(limit, time())),
    keyHolder: (key) => run(() => changes.keyHolder(key, time())),
    freeKey: (key) => run(() => changes.freeKey(key, time())),
    remove: (ids, scope) => change(() => changes.remove(ids, scope ?? {}, time())),

    reapExpiredLeases: (limit) =>
      change(async () => {
        const reaped = await maintenance.reapExpiredLeases(limit, time());
        hint(...reapHints(reaped));
        return reaped;
      }),
    expireOverdue: (limit) =>
      change(async () => {
        const reaped = await maintenance.expireOverdue(limit, time());
        hint(...reapHints(reaped));
        return reaped;
      }),
    purge: (request) => change(() => maintenance.purge(request, time())),
    purgeDue: (limit) => change(() => maintenance.purgeDue(limit, time())),
    maintain: () => run(() => maintenance.maintain(time())),
    tryAcquireDuty: (duty, everyMs) => run(() => maintenance.tryAcquireDuty(duty, everyMs, time())),

    stats: (request) => run(() => statsOf(table, config, counts, time(), request)),
    pause: (queue, by) => run(() => config.pause(queue, by ?? null, time())),
    resume: (queue) =>
      run(async () => {
        await config.resume(queue);
        hint(WORK_NOW);
      }),
    queues: () => run(() => config.queues()),
    countAhead: (before, atMost) =>
      run(async () => {
        const { known } = config;
        const current = known !== null && isLive && known.ageMs < RECENT_MS ? known.config : await config.read();
        return countAhead(table, current, before, atMost, time());
      }),

    recordErrors: (groups) => run(() => errorGroups.record(groups, time())),
    errorGroups: (limit) => run(() => errorGroups.list(limit), { needsTime: false }),
    purgeErrorGroups: (before) => run(() => errorGroups.purge(before), { needsTime: false }),
    putHistory: (records) => run(() => history.put(records, time())),
    history: (range) => run(() => history.read(range), { needsTime: false }),
    mergeHistory: (merge) => run(() => history.merge(merge, time())),
    purgeHistory: (request) => run(() => history.purge(request), { needsTime: false }),
    recordTransitions: (forMs) => run(() => transitions.record(forMs)),
    transitions: (cursor, limit) => run(() => transitions.page(cursor, limit)),
    purgeTransitions: (request) => run(() => transitions.purge(request), { needsTime: false }),

    putSchedule: (schedule, version) =>
      run(async () => {
        const result = await schedules.put(schedule, version, time());
        hint(...scheduleHints(result));
        return result;
      }),
    getSchedule: (schedule) => run(() => schedules.get(schedule)),
    listSchedules: (filter, page) => run(() => schedules.list(filter, page)),
    removeSchedule: (schedule) =>
      run(async () => {
        const removed = await schedules.remove(schedule);
        hint(...scheduleHints(removed));
        return removed;
      }),
    dueSchedules: (limit) => run(() => schedules.due(limit, time())),
    fire: (firings) =>
      change(async () => {
        const now = time();
        const results = await schedules.fire(firings, now);
        hint(...fireHints(firings, results, now));
        return results;
      }),

    heartbeat: (worker) => run(() => heartbeat(table, worker, time())),
    deregister: (worker) => run(() => deregister(table, worker, time())),
    drainWorker: (worker, draining) => run(() => drainWorker(table, worker, draining, time())),
    workers: () => run(() => workers(table, time())),
    putOperation: (operation, lease) => run(() => operations.put(operation, lease, time())),
    claimOperation: (lease) => run(() => operations.claim(lease, time())),
    saveOperation: (progress) => run(() => operations.save(progress, time())),
    endOperation: (end) => run(() => operations.end(end, time())),
    stopOperation: (id) => run(() => operations.stop(id), { needsTime: false }),
    getOperation: (id) => run(() => operations.get(id, time())),
    operations: () => run(() => operations.list(time())),
    purgeOperations: (request) => run(() => operations.purge(request), { needsTime: false }),

    audit: (entries) => run(() => audit.append(entries, time())),
    listAudit: (filter, page) => run(() => audit.list(filter, page, time())),
    purgeAudit: (request) => run(() => audit.purge(request), { needsTime: false }),
    putToken: (token) => run(() => tokens.put(token), { needsTime: false }),
    getToken: (id) => run(() => tokens.get(id), { needsTime: false }),
    listTokens: () => run(() => tokens.list(), { needsTime: false }),
    removeToken: (id) => run(() => tokens.remove(id), { needsTime: false }),
    cursorKey: () => run(() => cursorKey(table), { needsTime: false }),

    listen(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

function noTransactions(): Promise<never> {
  return Promise.reject(new InvalidOptionError("tx", "not supported: DynamoDB has no interactive transactions"));
}

// How long completed jobs are counted in memory before the counts are written.
const COUNTED_MS = 1_000;
const CONNECT_MS = 3_000;
// `countAhead` does not read lanes and shards again that were just read.
const RECENT_MS = 1_000;

interface ConnectOptions {
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
}: ConnectOptions): Promise<{ sdk: Sdk; client: DynamoClient }> {
  const sdk = await loadSdk();
  if (client !== undefined) return { sdk, client };
  const Client = sdk["DynamoDBClient"] as unknown as new (options: object) => DynamoClient;
  const options = {
    ...(region !== undefined && { region }),
    ...(endpoint !== undefined && { endpoint }),
    // Table.send decides which requests are sent again.
    maxAttempts: 1,
    requestHandler: {
      connectionTimeout: CONNECT_MS,
      httpAgent: { maxSockets: requests, keepAlive: true },
      httpsAgent: { maxSockets: requests, keepAlive: true },
    },
  };
  const created = new Client(options) as DynamoClient & { config: { region(): Promise<string> } };
  await created.config.region().catch(() => {
    throw new InvalidOptionError(
      "region",
      "is missing; set it, as in dynamodb://jobs?region=eu-central-1, or set AWS_REGION",
    );
  });
  return { sdk, client: created };
}

async function loadSdk(): Promise<Sdk> {
  try {
    return (await import("@aws-sdk/client-dynamodb")) as unknown as Sdk;
  } catch (error) {
    throw DriverMissingError.notInstalled("@aws-sdk/client-dynamodb", error);
  }
}
