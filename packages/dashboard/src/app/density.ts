import { effect, signal } from "./signals.js";

/** How high rows are. */
export type Density = "compact" | "comfortable";
const STORED = "holdfast.density";

export const density = signal<Density>(stored());

function stored(): Density {
  try {
    return localStorage.getItem(STORED) === "comfortable" ? "comfortable" : "compact";
  } catch {
    // Storage is disabled.
    return "compact";
  }
}

export function startDensity(): void {
  effect(() => {
    document.documentElement.dataset["density"] = density.value;
    try {
      localStorage.setItem(STORED, density.value);
    } catch {
      // It lasts until the page is closed.
    }
  });
}
