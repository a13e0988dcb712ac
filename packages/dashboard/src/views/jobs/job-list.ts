import { signal, type ReadonlySignal, type Signal } from "../../app/signals.js";
import type { JobConditions, JobQuery, JobSummary } from "holdfast/admin";
import { api } from "../../app/api.js";
import { matches, type Filter } from "./filter.js";

/** A job that is shown. It changes in place; the row stays where it is. */
export interface Row {
  readonly id: string;
  readonly job: Signal<JobSummary>;
  /** It no longer matches the filter, or was deleted. It stays, muted, until the next load. */
  readonly isStale: Signal<boolean>;
}

export type Order = NonNullable<JobQuery["order"]>;

const PAGE = 50;
/** One call returns no more. */
const MAX_PAGE = 200;
const FEW = 20;
/** Pages loaded at once if few of very many jobs match. */
const MAX_CALLS = 4;
/** A search goes on by itself until it has read so many jobs. */
const SEARCHED = 20_000;
const MAX_SEARCHES = 100;
const MAX_REFRESHED = 200;
const MAX_FRESH = 1_000;

let lists = 0;

/** The jobs that match a filter, as far as they were loaded. */
export class JobList {
  /** Another one for each list. */
  readonly number: number = ++lists;
  readonly filter: Filter;
  readonly order: Order;
  readonly rows: ReadonlySignal<readonly Row[]>;
  /** Undefined until the first page is there; null at the end. */
  readonly cursor: Signal<string | null | undefined> = signal(undefined);
  readonly error: Signal<unknown> = signal(undefined);
  readonly isLoading: Signal<boolean> = signal(false);
  /** How many jobs the server read for this list. */
  readonly examined: Signal<number> = signal(0);
  /** How many matching jobs were enqueued, or came to match, since the list was loaded. */
  readonly freshCount: ReadonlySignal<number>;
  /** The row that the keyboard acts on. */
  readonly current: Signal<string | null> = signal(null);
  readonly loadedAt: number = Date.now();
  readonly #rows: Signal<readonly Row[]> = signal([]);
  readonly #byId = new Map<string, Row>();
  readonly #fresh = new Set<string>();
  readonly #freshCount: Signal<number> = signal(0);
  #isStopped = false;

  constructor(filter: Filter, order: Order) {
    this.filter = filter;
    this.order = order;
    this.rows = this.#rows;
    this.freshCount = this.#freshCount;
    if (filter.isImpossible) this.cursor.value = null;
  }

  get conditions(): JobConditions {
    return this.filter.conditions;
  }

  /** Whether inputs or errors are searched: each call examines a limited number of jobs. */
  get isSearch(): boolean {
    return this.conditions.input !== undefined || this.conditions.error !== undefined;
  }

  /** Ends a search that goes on. What it found stays. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Loads the next page. A search reads some thousand jobs more. */
  async more(): Promise<void> {
    if (this.isLoading.peek() || this.cursor.peek() === null) return;
    this.isLoading.value = true;
    this.#isStopped = false;
    const examinedBefore = this.examined.peek();
    let found = 0;
    try {
      for (let calls = 1; ; calls++) {
        const { value: cursor } = this.cursor;
        const query = { ...this.conditions, limit: PAGE, order: this.order };
        const page = await api.jobs.list({ ...query, ...(typeof cursor === "string" && { cursor }) });
        this.#append(page.jobs);
        this.cursor.value = page.cursor;
        this.examined.value += page.examined;
        found += page.jobs.length;
        const isEnough = this.isSearch
          ? calls >= MAX_SEARCHES || this.examined.value - examinedBefore >= SEARCHED
          : calls >= MAX_CALLS;
        if (page.cursor === null || found >= FEW || isEnough || this.#isStopped) break;
      }
      this.error.value = undefined;
    } catch (error) {
      this.error.value = error;
    } finally {
      this.isLoading.value = false;
    }
  }

  /** Jobs that have changed, in any process. */
  receive(jobs: readonly JobSummary[]): void {
    for (const job of jobs) {
      const row = this.#byId.get(job.id);
      if (row !== undefined) {
        row.job.value = job;
        row.isStale.value = matches(job, this.conditions) === false;
      } else if (this.#wouldBeShown(job)) this.#fresh.add(job.id);
      else this.#fresh.delete(job.id);
    }
    this.#freshCount.value = this.#fresh.size;
  }

  /** Reads the shown rows again: after a pause, after a bulk change, and where there is no event stream. */
  async refresh(shown: readonly string[]): Promise<void> {
    if (this.cursor.value === undefined) return this.more();
    const ids = shown.slice(0, MAX_REFRESHED);
    const [known, newest] = await Promise.all([
      ids.length === 0 ? { jobs: [] } : api.jobs.list({ id: ids, limit: ids.length }),
      this.isSearch || this.filter.isImpossible
        ? { jobs: [] }
        : api.jobs.list({ ...this.conditions, limit: PAGE, order: this.order }),
    ]);
    this.receive([...known.jobs, ...newest.jobs]);
    const found = new Set(known.jobs.map(({ id }) => id));
    for (const id of ids) {
      const row = this.#byId.get(id);
      if (row !== undefined && !found.has(id)) row.isStale.value = true;
    }
  }

  /** The jobs that match now, also those that were not loaded. They are not kept. */
  async loadAll(atMost: number): Promise<JobSummary[]> {
    const found: JobSummary[] = [];
    let cursor: string | null | undefined;
    do {
      const query = { ...this.conditions, limit: MAX_PAGE, order: this.order };
      const page = await api.jobs.list({ ...query, ...(cursor != null && { cursor }) });
      found.push(...page.jobs);
      ({ cursor } = page);
    } while (cursor !== null && found.length < atMost);
    return found.slice(0, atMost);
  }

  row(id: string): Row | undefined {
    return this.#byId.get(id);
  }

  /** Whether a load would show it among the rows. */
  #wouldBeShown(job: JobSummary): boolean {
    if (this.cursor.value === undefined || this.#fresh.size >= MAX_FRESH) return false;
    if (matches(job, this.conditions) !== true) return false;
    const last = this.#rows.value.at(-1)?.job.value;
    if (this.cursor.value === null || last === undefined) return true;
    const distance = Date.parse(job.createdAt) - Date.parse(last.createdAt);
    if (distance === 0) return this.order === "newest" ? job.id > last.id : job.id < last.id;
    return this.order === "newest" ? distance > 0 : distance < 0;
  }

  #append(jobs: readonly JobSummary[]): void {
    const added: Row[] = [];
    for (const job of jobs) {
      this.#fresh.delete(job.id);
      if (this.#byId.has(job.id)) continue;
      const row: Row = { id: job.id, job: signal(job), isStale: signal(false) };
      this.#byId.set(job.id, row);
      added.push(row);
    }
    if (added.length > 0) this.#rows.value = [...this.#rows.value, ...added];
    this.#freshCount.value = this.#fresh.size;
  }
}
