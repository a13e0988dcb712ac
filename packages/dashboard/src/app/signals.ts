import { Component, options, type VNode } from "preact";
import { useMemo } from "preact/hooks";

/** A value, and who must know when it changes. */
export interface ReadonlySignal<T> {
  /** A component, `computed` or `effect` that reads it runs again when it changes. */
  readonly value: T;
  /** The value, for a reader that does not run again. */
  peek(): T;
}

/** What reads signals. */
interface Reader {
  /** What it read, each with the version that it saw. */
  read: Map<Source<unknown>, number>;
  /** Whether changes must reach it. */
  isActive(): boolean;
  /** Something that it read may have changed. */
  notify(): void;
}

let reader: Reader | undefined;

class Source<T> implements ReadonlySignal<T> {
  version = 0;
  protected readonly readers = new Set<Reader>();
  protected current: T;

  constructor(current: T) {
    this.current = current;
  }

  get value(): T {
    const current = this.peek();
    if (reader !== undefined) {
      reader.read.set(this, this.version);
      if (reader.isActive()) this.add(reader);
    }
    return current;
  }

  peek(): T {
    return this.current;
  }

  add(added: Reader): void {
    this.readers.add(added);
  }

  remove(removed: Reader): void {
    this.readers.delete(removed);
  }

  protected notifyReaders(): void {
    for (const each of this.readers) each.notify();
  }
}

export class Signal<T> extends Source<T> {
  override get value(): T {
    return super.value;
  }

  override set value(next: T) {
    if (Object.is(next, this.current)) return;
    this.current = next;
    this.version++;
    this.notifyReaders();
    runDue();
  }
}

/** Computed when it is read, and only if something changed that it read the last time. */
class Computed<T> extends Source<T | undefined> implements Reader {
  read: Reader["read"] = new Map();
  /** Nothing that it read has changed since. */
  #isFresh = false;
  readonly #compute: () => T;

  constructor(compute: () => T) {
    super(undefined);
    this.#compute = compute;
  }

  isActive(): boolean {
    return this.readers.size > 0;
  }

  notify(): void {
    if (!this.#isFresh) return;
    this.#isFresh = false;
    this.notifyReaders();
  }

  override peek(): T | undefined {
    if (!(this.#isFresh && this.isActive()) && (this.version === 0 || hasChanged(this))) {
      const next = readBy(this, this.#compute);
      if (this.version === 0 || !Object.is(next, this.current)) {
        this.current = next;
        this.version++;
      }
    }
    this.#isFresh = true;
    return this.current;
  }

  override add(added: Reader): void {
    // One without readers is not in the signals that it read, so that it does not stay in memory with them.
    if (!this.isActive()) for (const source of this.read.keys()) source.add(this);
    super.add(added);
  }

  override remove(removed: Reader): void {
    super.remove(removed);
    if (!this.isActive()) for (const source of this.read.keys()) source.remove(this);
  }
}

/** A component or an effect. */
class Watcher implements Reader {
  read: Reader["read"] = new Map();
  readonly react: () => void;

  constructor(react: () => void) {
    this.react = react;
  }

  isActive(): boolean {
    return true;
  }

  notify(): void {
    due.add(this);
  }

  stop(): void {
    readBy(this, () => {});
    due.delete(this);
  }
}

const due = new Set<Watcher>();
let isRunning = false;

/** Runs what read a signal that changed. Signals that are written meanwhile add to it. */
function runDue(): void {
  if (isRunning) return;
  isRunning = true;
  for (const watcher of due) {
    due.delete(watcher);
    try {
      if (hasChanged(watcher)) watcher.react();
    } catch (error) {
      reportError(error);
    }
  }
  isRunning = false;
}

function hasChanged({ read }: Reader): boolean {
  for (const [source, version] of read) {
    source.peek();
    if (source.version !== version) return true;
  }
  return false;
}

/** Begins to gather what is read; returns what ends it. */
function begin(by: Reader): () => void {
  const [outer, before] = [reader, by.read];
  reader = by;
  by.read = new Map();
  return () => {
    reader = outer;
    for (const source of before.keys()) if (!by.read.has(source)) source.remove(by);
  };
}

function readBy<T>(by: Reader, work: () => T): T {
  const end = begin(by);
  try {
    return work();
  } finally {
    end();
  }
}

export function signal<T>(value: T): Signal<T> {
  return new Signal(value);
}

/** A value that is made from signals. */
export function computed<T>(compute: () => T): ReadonlySignal<T> {
  return new Computed(compute) as ReadonlySignal<T>;
}

/** Runs `work` now, and again when a signal that it read has changed. What it returned is called before, and at the end. */
export function effect(work: () => (() => void) | void): () => void {
  let clean: (() => void) | void;
  const watcher = new Watcher(() => {
    untracked(() => clean?.());
    clean = readBy(watcher, work);
  });
  watcher.react();
  return () => {
    watcher.stop();
    untracked(() => clean?.());
  };
}

/** Calls `work` without running the caller again when what it reads changes. */
export function untracked<T>(work: () => T): T {
  const outer = reader;
  reader = undefined;
  try {
    return work();
  } finally {
    reader = outer;
  }
}

export function useSignal<T>(value: T): Signal<T> {
  return useMemo(() => signal(value), []);
}

/** `inputs`: what `compute` uses besides signals. */
export function useComputed<T>(compute: () => T, inputs: readonly unknown[]): ReadonlySignal<T> {
  return useMemo(() => computed(compute), [...inputs]);
}

/** A component that reads signals is rendered again when they change, but not with each render of its parent. */
interface Tracked extends Component {
  watcher?: Watcher;
  isDue?: boolean;
}

// Names that the published Preact keeps for its own packages, such as its hooks.
interface Hooks {
  /** Before a node is compared. */
  __b?: Hook;
  /** Before a component is rendered. */
  __r?: Hook;
  diffed?: Hook;
  unmount?: Hook;
  /** After an exception. */
  __e?: Hook;
}
type TrackedNode = VNode & { __c?: Tracked };
type Hook = (node: TrackedNode, ...rest: unknown[]) => void;

let endRender: (() => void) | undefined;

function finish(): void {
  endRender?.();
  endRender = undefined;
}

function on(name: keyof Hooks, work: (node: TrackedNode) => void): void {
  const hooks = options as Hooks;
  const before = hooks[name];
  hooks[name] = (node, ...rest) => {
    work(node);
    before?.(node, ...rest);
  };
}

on("__b", finish);
on("diffed", finish);
on("__e", finish);
on("unmount", ({ __c: component }) => component?.watcher?.stop());
on("__r", ({ __c: component }) => {
  finish();
  if (component === undefined) return;
  component.isDue = false;
  component.watcher ??= new Watcher(() => {
    component.isDue = true;
    component.setState({});
  });
  endRender = begin(component.watcher);
});

Component.prototype.shouldComponentUpdate = function (this: Tracked, next: object): boolean {
  if (this.isDue === true || !this.watcher?.read.size) return true;
  const [before, after] = [Object.entries(this.props), new Map<string, unknown>(Object.entries(next))];
  return before.length !== after.size || before.some(([name, value]) => after.get(name) !== value);
};
