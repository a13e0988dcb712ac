import { signal, type ReadonlySignal } from "../../app/signals.js";

/** A filter with a name. */
export interface SavedView {
  name: string;
  q: string;
}

export const BUILT_IN: readonly SavedView[] = [
  { name: "Dead", q: "state:dead" },
  { name: "Running long", q: "state:running created:>10m" },
  { name: "Failed in the last hour", q: "state:failed,dead created:<1h" },
];

const STORED = "holdfast.jobs.views";
const MAX_VIEWS = 50;
const MAX_LENGTH = 2_000;

const list = signal<readonly SavedView[]>(read());
export const savedViews: ReadonlySignal<readonly SavedView[]> = list;

/** Replaces the one with the same name. */
export function saveView(view: SavedView): void {
  write([...list.value.filter(({ name }) => name !== view.name), view].slice(-MAX_VIEWS));
}

export function removeView(name: string): void {
  write(list.value.filter((view) => view.name !== name));
}

function write(views: readonly SavedView[]): void {
  list.value = views;
  try {
    localStorage.setItem(STORED, JSON.stringify(views));
  } catch {
    // Storage is disabled or full: they last until the page is closed.
  }
}

function read(): SavedView[] {
  try {
    const stored = JSON.parse(localStorage.getItem(STORED) ?? "[]") as unknown;
    return Array.isArray(stored) ? stored.filter(isView).slice(0, MAX_VIEWS) : [];
  } catch {
    return [];
  }
}

function isView(value: unknown): value is SavedView {
  const { name, q } = (value ?? {}) as Partial<Record<keyof SavedView, unknown>>;
  return typeof name === "string" && typeof q === "string" && name.length > 0 && q.length <= MAX_LENGTH;
}
