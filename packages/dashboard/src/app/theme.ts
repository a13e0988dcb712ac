import { effect, signal } from "./signals.js";

export type Theme = "system" | "light" | "dark";
const STORED = "holdfast.theme";

export const theme = signal<Theme>(stored());

function stored(): Theme {
  try {
    const value = localStorage.getItem(STORED);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    // Storage is disabled.
    return "system";
  }
}

export function startTheme(): void {
  effect(() => {
    const { value } = theme;
    if (value === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = value;
    try {
      localStorage.setItem(STORED, value);
    } catch {
      // It lasts until the page is closed.
    }
  });
}

const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
export function nextTheme(): void {
  theme.value = NEXT[theme.value];
}
