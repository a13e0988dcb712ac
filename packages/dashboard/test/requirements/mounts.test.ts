import { it } from "vitest";
import { bothStores, inBrowser, useBrowser } from "../scene.js";
import { journeyIn, type Mounted } from "./journey.js";

const STORES = new Map(bothStores());
useBrowser();

/** Both frameworks, both places and both stores. The long set has the other combinations. */
const CASES: readonly Mounted[] = [
  ["Hono", "", "SQLite"],
  ["Express", "/jobs", "PostgreSQL"],
];

inBrowser("the dashboard", () => {
  it.each(CASES)("C-19 works in %s at %s/ on %s", (...mounted) => journeyIn(mounted, STORES));
});
