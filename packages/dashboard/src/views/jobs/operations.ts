import { signal, type ReadonlySignal } from "../../app/signals.js";
import type { OperationResult } from "holdfast/admin";
import { AdminError, api } from "../../app/api.js";

/** An operation that is shown. */
export interface Shown {
  operation: OperationResult;
  /** How many jobs matched when it was started here; null: unknown. */
  expected: number | null;
}

const list = signal<readonly Shown[]>([]);
/** The newest first. They stay until they are dismissed. */
export const operations: ReadonlySignal<readonly Shown[]> = list;
const ended = signal(0);
/** Goes up when an operation ends: jobs have changed. */
export const endedOperations: ReadonlySignal<number> = ended;

/** Most operations end at once: the first reads follow soon, then one per second. */
const DELAYS_MS = [200, 400, 1_000] as const;
const MAX_SHOWN = 4;
let timer: ReturnType<typeof setTimeout> | undefined;
let polls = 0;

export function show(operation: OperationResult, expected: number | null = null): void {
  const known = list.peek().find((each) => each.operation.id === operation.id);
  if (known === undefined) list.value = [{ operation, expected }, ...list.peek()].slice(0, MAX_SHOWN);
  else replace(operation);
  if (operation.state !== "running") return;
  if (known === undefined) polls = 0;
  if (timer === undefined) pollLater();
}

function pollLater(): void {
  timer = setTimeout(() => void poll(), DELAYS_MS[Math.min(polls++, DELAYS_MS.length - 1)]);
}

export function dismissOperation(id: string): void {
  list.value = list.peek().filter(({ operation }) => operation.id !== id);
}

/** Shows the operations that run already, started by anyone and on any server. */
export async function showRunning(): Promise<void> {
  try {
    const { operations: all } = await api.operations.list();
    for (const operation of all.toReversed()) if (operation.state === "running") show(operation);
  } catch {
    // The list of jobs says it if the server does not respond.
  }
}

export async function stopOperation(id: string): Promise<void> {
  replace(await api.operations.stop({ id }));
}

async function poll(): Promise<void> {
  const running = list.peek().filter(({ operation }) => operation.state === "running");
  await Promise.all(
    running.map(async ({ operation }) => {
      try {
        replace(await api.operations.get({ id: operation.id }));
      } catch (error) {
        // The store keeps operations for a while only.
        const isLost = error instanceof AdminError && error.code === "OPERATION_NOT_FOUND";
        if (isLost) replace({ ...operation, state: "failed", error: "The store has it no longer. Changes remain." });
      }
    }),
  );
  timer = undefined;
  if (list.peek().some(({ operation }) => operation.state === "running")) pollLater();
}

function replace(operation: OperationResult): void {
  const before = list.peek().find((each) => each.operation.id === operation.id);
  list.value = list.peek().map((each) => (each.operation.id === operation.id ? { ...each, operation } : each));
  if (before?.operation.state === "running" && operation.state !== "running") ended.value++;
}
