import type { State } from "../../../job/state.js";
import type { Claim, ClaimedJob, ClaimRequest } from "../../../store.js";
import { AGAIN_MS, claimStatement, EVERY_TYPE, quickClaimStatement, type LaneSource } from "./claim-sql.js";
import type { Row, Runner, Statement } from "../connection/db.js";
import { Floors, type Place } from "./claim-cursors.js";
import { LiveLanes, readChanges, valuesOf, type LaneSnapshot } from "./live-lanes.js";
import type { Sql } from "../connection/sql.js";
import { MATCH_TYPE, type TypesIndex } from "../schema/types-index.js";

// After one that the quick statement does not take, how long to go without it.
const NOT_QUICK_MS = 1_000;

/** claim: in one statement, or where a quick one was tried in vain in two. */
export function claimOperation(
  sql: Sql,
  typesIndex: Pick<TypesIndex, "isThere">,
): (runner: Runner, request: ClaimRequest, now: number | null) => Promise<Claim> {
  const ofSource = (source: LaneSource): Record<"quick" | "plain" | "filtered" | "typed", Statement> => ({
    quick: quickClaimStatement(sql, source),
    plain: claimStatement(sql, "claim", EVERY_TYPE, source),
    filtered: claimStatement(sql, "claim_types_filtered", "j.queue = l.queue AND j.type = l.type", source),
    typed: claimStatement(sql, "claim_types", MATCH_TYPE, source),
  });
  const statements = { all: ofSource("all"), snapshot: ofSource("snapshot") };
  const liveLanes = new LiveLanes(sql);
  /** The queues in which the last claim found less than it wanted, and from when on to expect few jobs in them. */
  const calm = new Map<string, number>();
  const floors = { plain: new Floors(), typed: new Floors() };

  /** Runs a claim over all lanes, or over those that hold jobs where there are many; its last row says what it found of them. */
  async function run(
    runner: Runner,
    kind: keyof (typeof statements)["all"],
    values: readonly unknown[],
    walked: LaneSnapshot | null,
  ): Promise<Row[]> {
    if (walked === null) return runner.run(statements.all[kind], values);
    const sentAt = performance.now();
    const rows = await runner.run(statements.snapshot[kind], [...values, ...valuesOf(walked)]);
    liveLanes.learn(walked, readChanges(rows.at(-1)?.[INPUT] as string), sentAt);
    return rows;
  }

  /** Null: nothing was claimed, and it is not for the quick statement. */
  async function quickly(runner: Runner, request: ClaimRequest, now: number | null): Promise<Claim | null> {
    const { queues, limit, bytes, worker, leaseMs } = request;
    const walked = await liveLanes.current(runner);
    const rows = await run(runner, "quick", [now, queues, limit, bytes, worker, leaseMs], walked);
    const last = rows.pop() as Row;
    if (last[UNFIT] === 1) return null;
    const jobs = inOrder(rows).map(readClaimed);
    const at = last[AT] as number;
    if (jobs.length === limit) return { at, jobs, nextDueAt: null };
    const left = last[PREV_DUE] as number | null;
    const waits = [
      ...(left === null ? [] : [left > at ? left : at + AGAIN_MS]),
      ...(jobs.length === 0 ? [] : [at + leaseMs]),
    ];
    return { at, jobs, nextDueAt: waits.length === 0 ? null : Math.min(...waits) };
  }

  async function once(runner: Runner, request: ClaimRequest, lanes: Floors, now: number | null): Promise<Claim> {
    const { queues, types, limit, bytes, worker, leaseMs } = request;
    const look = lanes.look(request, performance.now());
    const values = [now, queues, limit, bytes, worker, leaseMs, ...look.columns];
    const walked = await liveLanes.current(runner);
    const rows =
      types === null
        ? await run(runner, "plain", values, walked)
        : await run(runner, typesIndex.isThere ? "typed" : "filtered", [...values, types], walked);
    const last = rows.at(-1);
    if (last !== undefined && last[0] === null) rows.pop();
    const isShort = rows.length < limit;
    const jobs = inOrder(rows).map(readClaimed);
    const at = last?.[AT] as number;
    const next = isShort ? (last?.[PREV_DUE] as number | null) : null;
    const isCut = next === at;
    if (!isShort || isCut) {
      const places = rows.map((row) => readPlace(row, types !== null));
      lanes.took(look, places, performance.now());
      return { at, jobs, nextDueAt: next };
    }
    lanes.clear(request);
    if (look.whole) return { at, jobs, nextDueAt: next };
    // What lies below the floors is all that is left.
    return jobs.length === 0 ? once(runner, request, lanes, now) : { at, jobs, nextDueAt: at };
  }

  return async (runner, request, now) => {
    if (request.leaseMs <= 0) throw new RangeError("a lease must be longer than 0");
    if (request.types !== null) return once(runner, request, floors.typed, now);
    const lanes = request.queues?.join("\0") ?? "";
    if (performance.now() >= (calm.get(lanes) ?? Infinity)) {
      const claim = await quickly(runner, request, now);
      if (claim === null) calm.set(lanes, performance.now() + NOT_QUICK_MS);
      else if (claim.jobs.length === request.limit) calm.delete(lanes);
      if (claim !== null) return claim;
    }
    const claim = await once(runner, request, floors.plain, now);
    if (claim.jobs.length === request.limit) calm.delete(lanes);
    else if (!calm.has(lanes)) calm.set(lanes, 0);
    return claim;
  };
}

const UNFIT = 1;
const INPUT = 6;
const [TYPE, QUEUE, PRIORITY, PREV_DUE, SEQ, AT] = [2, 3, 4, 20, 21, 22] as const;

/** Updated by address they come in physical order. */
function inOrder(rows: Row[]): Row[] {
  return rows.sort(
    (a, b) =>
      (b[PRIORITY] as number) - (a[PRIORITY] as number) ||
      (a[PREV_DUE] as number) - (b[PREV_DUE] as number) ||
      (a[SEQ] as number) - (b[SEQ] as number),
  );
}

function readPlace(row: Row, byType: boolean): Place {
  return {
    queue: row[QUEUE] as string,
    priority: row[PRIORITY] as number,
    type: byType ? (row[TYPE] as string) : null,
    dueAt: row[PREV_DUE] as number,
    seq: row[SEQ] as number,
  };
}

function readClaimed(row: Row): ClaimedJob {
  const [id, fence, type, queue, priority, user, input, attempt, maxAttempts, losses, releases, runAt, expiresAt] = row;
  const [createdAt, cancelRequested, tags, schedule, slot, prevState, prevAttempt] = row.slice(13);
  const error = row[23] as string | null;
  return {
    id: id as string,
    fence: fence as number,
    type: type as string,
    queue: queue as string,
    priority: priority as number,
    user: user as string | null,
    input: (input as string | null) ?? "",
    attempt: attempt as number,
    maxAttempts: maxAttempts as number,
    losses: losses as number,
    releases: releases as number,
    runAt: runAt as number,
    expiresAt: expiresAt as number | null,
    createdAt: createdAt as number,
    cancelRequested: cancelRequested as boolean,
    error: error === null ? null : readError(error),
    tags: tags === null ? [] : (JSON.parse(tags as string) as string[]),
    schedule: schedule === null ? null : { name: schedule as string, slot: slot as number },
    trace: row[24] as string | null,
    previous: {
      state: prevState as State,
      attempt: prevAttempt as number,
      exhausted: (prevAttempt as number) >= (maxAttempts as number),
    },
  };
}

function readError(text: string): ClaimedJob["error"] {
  const error = JSON.parse(text) as { message: string | null; code: string | null; at: number };
  return error.message === null ? null : { message: error.message, code: error.code, at: error.at };
}
