import { it } from "vitest";
import { bothStores, inBrowser, useBrowser } from "../scene.js";
import { journeyIn, type Mounted } from "./journey.js";

const STORES = new Map(bothStores());
useBrowser();

/** Each framework at both places, and each of these on one of the stores. The long set has the others. */
const CASES: readonly Mounted[] = [
  ["Hono", "", "SQLite"],
  ["Hono", "/ops/jobs", "PostgreSQL"],
  ["Express", "", "PostgreSQL"],
  ["Express", "/ops/jobs", "SQLite"],
];

inBrowser("the dashboard", () => {
  it.each(CASES)("C-19 works in %s at %s/ on %s", (...mounted) => journeyIn(mounted, STORES));
});
