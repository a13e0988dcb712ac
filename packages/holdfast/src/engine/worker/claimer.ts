import type { Timer } from "../../clock.js";
import { DEFAULTS, LIMITS } from "../../defaults.js";
import { isLeased } from "../../job/state.js";
import type { Claim, NewJob, Outcome } from "../../store.js";
import { announce, announceClaim } from "../events/publish.js";
import { holdLease, type EngineContext, type HeldLease } from "../context.js";
import { released, triage } from "./outcome.js";
import { Prefetch } from "./prefetch.js";

interface ClaimerSettings {
  concurrency: number;
  queues: readonly string[] | null;
  types: readonly string[] | null;
  leaseMs: number;
  pollMs: number;
}

interface Slots {
  running(): number;
  begin(lease: HeldLease): void;
  /** Goes on with the handler that runs this very job here, under the new lease; false if there is none. */
  adopt(lease: HeldLease): boolean;
  extendAll(): Promise<void>;
}

// Held longer than this behind slow handlers, a claimed job is given back for others to take.
const READY_MS = 1_000;
// Handlers are begun for this long in one turn of the event loop.
const TURN_MS = 3;
// A wall clock that gains more than this on the monotonic one was set, or the machine slept.
const CLOCK_STEP_MS = 1_000;
// More outcomes than this on their way: the store is the bottleneck, and claiming more would not help.
const UNSETTLED = 4 * LIMITS.batchJobs;

/** Decides when to claim and how much, and keeps the claimed jobs in order until a slot is free. */
export class Claimer {
  readonly #engine: EngineContext;
  readonly #worker: string;
  readonly #settings: ClaimerSettings;
  readonly #slots: Slots;
  readonly #prefetch = new Prefetch();
  #ready: HeldLease[] = [];
  #head = 0;
  #active = false;
  #stopped = false;
  /** Claims under way, and how many jobs they ask for. */
  readonly #claims = new Set<Promise<void>>();
  #underWay = 0;
  #expected = 0;
  #riding = false;
  #extra = 0;
  #wallAhead: number | null = null;
  /** The last claim came back short: only a hint, the poll timer or a due time makes another worthwhile. */
  #dry = false;
  /** Claims in a row that found nothing. */
  #empty = 0;
  #wakes = 0;
  #failures = 0;
  #timer: Timer | null = null;
  #timerAt = Number.POSITIVE_INFINITY;
  #giveBackTimer: Timer | null = null;
  #pumping = false;
  #turnBegan: number | null = null;

  constructor(engine: EngineContext, worker: string, settings: ClaimerSettings, slots: Slots) {
    this.#engine = engine;
    this.#worker = worker;
    this.#settings = settings;
    this.#slots = slots;
  }

  start(): void {
    this.#active = true;
    this.#engine.inserting.add(this.#rideInsert);
    this.#wakeIn(this.#settings.pollMs);
    this.pump();
  }

  /** Stops claiming and gives back what is held but not begun. */
  async stop(): Promise<void> {
    this.#active = false;
    this.#stopped = true;
    this.#engine.inserting.delete(this.#rideInsert);
    this.#timer?.cancel();
    this.#giveBackTimer?.cancel();
    // At once, before a handler that ends could make room for them; and what a claim under way still brings.
    this.#giveBack();
    await Promise.all(this.#claims);
    this.#giveBack();
  }

  /** Jobs are on their way to the store: an idle worker's claim goes with them, and one transaction serves both. */
  readonly #rideInsert = (jobs: readonly NewJob[]): void => {
    const { queues, types } = this.#settings;
    const ours = jobs.some(
      (job) =>
        job.delayMs === 0 &&
        job.runAt === null &&
        (queues === null || queues.includes(job.queue)) &&
        (types === null || types.includes(job.type)),
    );
    if (ours) this.wake(0);
  };

  /** Something may be due, now or in a while. */
  wake(inMs: number): void {
    if (inMs > 0) {
      if (this.#active) this.#wakeIn(inMs);
      return;
    }
    this.#empty = 0;
    this.#look();
  }

  #look(): void {
    this.#dry = false;
    this.#wakes++;
    this.pump();
  }

  /** Claimed and not begun. */
  ready(): HeldLease[] {
    if (this.#head > 0) {
      this.#ready.splice(0, this.#head);
      this.#head = 0;
    }
    return this.#ready;
  }

  /** Takes one out of the ready ones; false if it is not there. */
  drop(lease: HeldLease): boolean {
    const at = this.ready().indexOf(lease);
    if (at >= 0) this.#ready.splice(at, 1);
    return at >= 0;
  }

  ran(ms: number): void {
    this.#prefetch.ran(ms);
  }

  /** Fills free slots, and claims when there is room for more. */
  pump(): void {
    // A handler that ends at once comes back here from within begin(); the loop outside goes on for it.
    if (this.#pumping) return;
    this.#pumping = true;
    while (this.#slots.running() < this.#settings.concurrency && this.#head < this.#ready.length) {
      if (this.#turnIsOver()) break;
      const lease = this.#ready[this.#head++] as HeldLease;
      this.#slots.begin(lease);
    }
    if (this.#head === this.#ready.length) this.ready();
    this.#pumping = false;
    this.#claimIfRoom();
    this.#watchReady();
  }

  /**
   * Quick handlers end within the turn of the event loop in which they began, and make room for the next: without a
   * limit a whole batch would run before a timer or a socket of the application had its turn.
   */
  #turnIsOver(): boolean {
    const now = this.#engine.clock.monotonic();
    if (this.#turnBegan === null) {
      this.#turnBegan = now;
      setImmediate(() => {
        this.#turnBegan = null;
        if (this.#head < this.#ready.length) this.pump();
      });
    }
    return now - this.#turnBegan > TURN_MS;
  }

  /** Claims once, and begins what slots are free for. Answers how many were claimed. */
  async claimOnce(limit: number): Promise<number> {
    const sentAt = this.#engine.clock.monotonic();
    const claiming = this.#engine.store.claim(this.#request(limit)).then((claim) => {
      this.#receive(claim, sentAt);
      // Stopped meanwhile: they are given back.
      if (!this.#stopped) this.pump();
      return claim.jobs.length;
    });
    const known = claiming.then(
      () => {},
      () => {},
    );
    this.#claims.add(known);
    return claiming.finally(() => this.#claims.delete(known));
  }

  #request(limit: number): Parameters<EngineContext["store"]["claim"]>[0] {
    const { queues, types, leaseMs } = this.#settings;
    return { queues, types, limit, bytes: LIMITS.batchBytes, worker: this.#worker, leaseMs };
  }

  /** Claims if there is room, together with outcomes that are about to be sent: one transaction serves both. */
  #claimIfRoom(): void {
    if (this.#riding || this.#room() === 0) return;
    const claim = (): void => {
      this.#riding = false;
      const limit = this.#room();
      if (limit === 0) return;
      this.#underWay++;
      this.#expected += limit;
      const claiming = this.#claim(limit).finally(() => {
        this.#claims.delete(claiming);
        if (this.#active) this.pump();
      });
      this.#claims.add(claiming);
    };
    this.#riding = this.#engine.settler.ride(claim);
    if (!this.#riding) claim();
  }

  /** How many jobs to ask for now; 0 if it is not worth a claim. */
  #room(): number {
    const { settler } = this.#engine;
    if (!this.#active || this.#dry || !settler.healthy || settler.size > UNSETTLED) return 0;
    const free = this.#settings.concurrency - this.#slots.running();
    const coming = this.#ready.length - this.#head + this.#expected;
    const ahead = Math.max(this.#extra, this.#prefetch.target(this.#settings.concurrency));
    // With quick handlers two claims may be under way: while one is answered the store works on the next.
    const short = (this.#underWay === 0 && free > coming) || (ahead > 0 && coming <= ahead / 2);
    return short && this.#underWay < 2 ? Math.min(LIMITS.batchJobs, free + ahead - coming) : 0;
  }

  async #claim(limit: number): Promise<void> {
    const wakes = this.#wakes;
    // A clock set forward makes our own leases look as if they had run out: they are renewed before anyone claims them.
    if (this.#clockRanAhead()) await this.#slots.extendAll();
    const sentAt = this.#engine.clock.monotonic();
    try {
      const claim = await this.#engine.store.claim(this.#request(limit)).finally(() => {
        this.#underWay--;
        this.#expected -= limit;
      });
      if (this.#failures > 0) this.#engine.events.emit("outageEnded", { doing: "claim" });
      this.#failures = 0;
      this.#receive(claim, sentAt);
      this.#empty = claim.jobs.length === 0 ? this.#empty + 1 : 0;
      if (cameShort(claim, limit) && this.#wakes === wakes) this.#dry = true;
      if (claim.nextDueAt !== null) this.#wakeIn(Math.max(1, claim.nextDueAt - claim.at));
      // Before the handlers run: the store then works on the next claim meanwhile.
      this.#claimIfRoom();
    } catch (error) {
      if (this.#failures++ === 0) this.#engine.events.emit("outage", { doing: "claim", error });
      this.#dry = true;
      this.#wakeIn(Math.min(this.#settings.pollMs, 50 * 2 ** Math.min(this.#failures, 10)));
    }
  }

  #clockRanAhead(): boolean {
    const ahead = this.#engine.clock.now() - this.#engine.clock.monotonic();
    const before = this.#wallAhead ?? ahead;
    this.#wallAhead = ahead;
    return ahead - before > CLOCK_STEP_MS;
  }

  /** Lays down what must not run and keeps the rest. */
  #receive(claim: Claim, sentAt: number): void {
    const { leaseMs } = this.#settings;
    let kept = 0;
    for (const job of claim.jobs) {
      const lease = holdLease(job, this.#worker, { at: claim.at, sentAt, leaseMs });
      // Never twice at once in one process: if a step of the clock brought us our own job, its handler goes on.
      if (isLeased(job.previous.state) && this.#slots.adopt(lease)) continue;
      announceClaim(this.#engine, lease);
      const laidDown = triage(lease, claim.at);
      if (laidDown === null) {
        this.#ready.push(lease);
        kept++;
      } else this.#settle(lease, laidDown);
    }
    // A head of jobs that only need laying down (expired, say) is worth larger and larger claims.
    const allDown = claim.jobs.length > 0 && kept === 0;
    this.#extra = allDown ? Math.min(LIMITS.batchJobs, Math.max(this.#extra, claim.jobs.length) * 2) : 0;
  }

  #settle(lease: HeldLease, outcome: Outcome): void {
    this.#engine.settler.add(outcome, lease.deadline, (answer) => {
      if (answer instanceof Error) this.#engine.events.emit("outage", { doing: "settle", error: answer });
      else announce(this.#engine, lease, outcome, answer);
    });
  }

  /** Jobs held ready behind handlers that turned out slow go back, so that other workers can have them. */
  #watchReady(): void {
    const holds = this.#active && this.#ready.length > this.#head;
    if (!holds) {
      this.#giveBackTimer?.cancel();
      this.#giveBackTimer = null;
      return;
    }
    const first = this.#ready[this.#head];
    this.#giveBackTimer ??= this.#engine.clock.after(READY_MS, () => {
      this.#giveBackTimer = null;
      if (this.#ready[this.#head] === first && this.#active) {
        this.#prefetch.ran(READY_MS);
        this.#giveBack();
      } else this.#watchReady();
    });
  }

  #giveBack(): void {
    for (const lease of this.ready().splice(0)) {
      this.#settle(lease, released(lease));
    }
  }

  /** One timer serves polling, due times and pauses after an error: it fires at the nearest of them. */
  #wakeIn(ms: number): void {
    if (!this.#active) return;
    const at = this.#engine.clock.monotonic() + Math.min(ms, this.#pauseMs());
    if (this.#timer !== null && this.#timerAt <= at) return;
    this.#timer?.cancel();
    this.#timerAt = at;
    this.#timer = this.#engine.clock.after(at - this.#engine.clock.monotonic(), () => {
      this.#timer = null;
      if (!this.#active) return;
      this.#wakeIn(this.#pauseMs());
      this.#look();
    });
  }

  /** How long nobody looks unless told to. Where looks cost money, the longer the more of them were in vain. */
  #pauseMs(): number {
    const { pollMs } = this.#settings;
    if (!this.#engine.store.capabilities.metered) return pollMs;
    return Math.max(pollMs, Math.min(DEFAULTS.meteredPollMs, pollMs * 2 ** Math.min(this.#empty, 20)));
  }
}

/** A claim cut by its byte limit is not short: there is more where it came from. */
function cameShort(claim: Claim, limit: number): boolean {
  if (claim.jobs.length >= limit) return false;
  let bytes = 0;
  for (const job of claim.jobs) bytes += Buffer.byteLength(job.input);
  return bytes < LIMITS.batchBytes - LIMITS.payloadBytes;
}
