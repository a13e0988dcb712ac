import { serverNow } from "../../app/now.js";
import { computed, signal, type ReadonlySignal, type Signal } from "../../app/signals.js";
import { toast } from "../../app/toasts.js";
import type { JobList } from "./job-list.js";

/** A change by ids takes no more. */
const MAX = 1_000;

/** The jobs that an action is for: some of those that are shown, or all that match the filter. */
export class Selection {
  readonly ids: Signal<ReadonlySet<string>> = signal(new Set());
  /** When all that match were selected; null: only `ids` are. */
  readonly allAt: Signal<string | null> = signal(null);
  readonly isEmpty: ReadonlySignal<boolean> = computed(() => this.ids.value.size === 0);
  readonly #list: JobList;
  /** Where a range begins. */
  #anchor: string | null = null;

  constructor(list: JobList) {
    this.#list = list;
  }

  has(id: string): boolean {
    return this.allAt.value !== null || this.ids.value.has(id);
  }

  /** `isRange`: also those between it and the one before. */
  toggle(id: string, isRange = false): void {
    this.allAt.value = null;
    const next = new Set(this.ids.value);
    const rows = this.#list.rows.value;
    const from = rows.findIndex((row) => row.id === this.#anchor);
    const to = rows.findIndex((row) => row.id === id);
    if (isRange && from >= 0 && to >= 0) {
      for (const row of rows.slice(Math.min(from, to), Math.max(from, to) + 1)) next.add(row.id);
    } else if (!next.delete(id)) next.add(id);
    this.#anchor = id;
    this.#set(next);
  }

  selectShown(): void {
    this.allAt.value = null;
    this.#set(new Set(this.#list.rows.value.map(({ id }) => id)));
  }

  /** Jobs that are enqueued from now on are not in it. */
  selectAll(): void {
    this.selectShown();
    const newest = Math.max(0, ...this.#list.rows.value.map(({ job }) => Date.parse(job.value.createdAt)));
    // The clock of a worker may be ahead of the server's.
    this.allAt.value = new Date(Math.max(serverNow(), newest + 1)).toISOString();
  }

  clear(): void {
    this.allAt.value = null;
    this.ids.value = new Set();
    this.#anchor = null;
  }

  #set(ids: ReadonlySet<string>): void {
    if (ids.size > MAX) toast(`At most ${MAX} jobs can be selected one by one.`, { kind: "info" });
    this.ids.value = new Set([...ids].slice(0, MAX));
  }
}
