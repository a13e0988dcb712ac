import { useState } from "preact/hooks";
import { AdminError, messageOf } from "../app/api.js";
import type { Issue } from "./json-editor.js";

interface Sending {
  issues: readonly Issue[];
  /** What is not about one field. */
  error: string | null;
  forget: () => void;
  /** Undefined: it failed. `isShown`: whether an issue has a field that shows it; the others become the error. */
  send: <T>(call: () => Promise<T>, isShown?: (path: string) => boolean) => Promise<T | undefined>;
}

/** A call of a form, and what the server found wrong with it. */
export function useSending(): Sending {
  const [{ issues, error }, set] = useState<Pick<Sending, "issues" | "error">>(FINE);
  return {
    issues,
    error,
    forget: () => set(FINE),
    async send(call, isShown = () => true) {
      set(FINE);
      try {
        return await call();
      } catch (thrown) {
        const found = thrown instanceof AdminError ? thrown.issues : [];
        set({ issues: found, error: found.some(({ path }) => isShown(path)) ? null : messageOf(thrown) });
        return undefined;
      }
    },
  };
}

const FINE = { issues: [], error: null };
