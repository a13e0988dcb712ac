import { signal, type ReadonlySignal } from "./signals.js";
import { messageOf } from "./api.js";

export interface Toast {
  id: number;
  kind: "done" | "error" | "info";
  text: string;
  /** Offered for as long as the toast is shown. */
  action?: { label: string; run: () => void };
}

const list = signal<readonly Toast[]>([]);
export const toasts: ReadonlySignal<readonly Toast[]> = list;
/** Read aloud by screen readers, politely. */
export const announced = signal("");

const SHOWN_MS = 8_000;
let last = 0;

export function toast(text: string, { kind = "done", action }: Partial<Pick<Toast, "kind" | "action">> = {}): number {
  const id = ++last;
  list.value = [...list.value.slice(-3), { id, kind, text, ...(action !== undefined && { action }) }];
  announced.value = text;
  setTimeout(() => dismiss(id), SHOWN_MS);
  return id;
}

export function dismiss(id: number): void {
  list.value = list.value.filter((each) => each.id !== id);
}

/** Runs an action and shows what came of it. Returns whether it succeeded. */
export async function act(work: () => Promise<unknown>, done?: string, undo?: () => void): Promise<boolean> {
  try {
    await work();
    if (done !== undefined) toast(done, undo === undefined ? {} : { action: { label: "Undo", run: undo } });
    return true;
  } catch (error) {
    toast(messageOf(error), { kind: "error" });
    return false;
  }
}
