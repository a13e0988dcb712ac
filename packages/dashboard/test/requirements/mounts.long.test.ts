import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { bothStores, inBrowser, openDashboard, useBrowser } from "../scene.js";
import { jobs, journeyIn, takeJourney, type Mounted } from "./journey.js";
import { buildNextApp, PREFIX, startNextApp } from "./next-app.js";

const STORES = bothStores();
useBrowser();

/** Those that are not in the default set. */
const CASES: readonly Mounted[] = [
  ["Hono", "", "PostgreSQL"],
  ["Hono", "/jobs", "SQLite"],
  ["Hono", "/schedules", "SQLite"],
  ["Hono", "/ops/jobs", "PostgreSQL"],
  ["Express", "", "SQLite"],
  ["Express", "", "PostgreSQL"],
  ["Express", "/ops/jobs", "SQLite"],
  ["Fastify", "", "SQLite"],
  ["Express", "/ops/jobs", "PostgreSQL"],
  ["Fastify", "/jobs", "SQLite"],
  ["Fastify", "/ops/jobs", "PostgreSQL"],
];

inBrowser("the dashboard", () => {
  it.each(CASES)("works in %s at %s/ on %s", (...mounted) => journeyIn(mounted, new Map(STORES)));
});

inBrowser("the dashboard in Next.js", () => {
  beforeAll(buildNextApp, 600_000);

  for (const prefix of ["", PREFIX]) {
    it.each(STORES)(`works at ${prefix}/ on %s`, { timeout: 120_000 }, async (name, store) => {
      // Another process cannot open a database in memory.
      const address = name === "SQLite" ? `sqlite:${join(tmpdir(), `next-${randomUUID()}.db`)}` : store();
      const scene = await openDashboard({
        store: address,
        prefix,
        jobs,
        mount: () => startNextApp(address),
        expected: /401/,
      });
      await takeJourney(scene);
      expect(await (await fetch(new URL("/own", scene.url))).text()).toBe("own");
    });
  }
});
