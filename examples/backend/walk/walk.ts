import { access, dashboard } from "./access.js";
import { cleanUp } from "./clean-up.js";
import { command, refusedFlags, unknownType } from "./commands.js";
import { operatorChanges } from "./operator.js";
import { legacyPruner } from "./pruner.js";
import { defaultSchedules, scheduleLife, wrongSchedules } from "./schedules.js";
import type { Story, Tour } from "./tour.js";

const STORIES: readonly Story[] = [
  defaultSchedules,
  access,
  cleanUp,
  scheduleLife,
  wrongSchedules,
  command,
  refusedFlags,
  unknownType,
  operatorChanges,
  legacyPruner,
  dashboard,
];

/** Runs one story after the other. Throws if something is not as a story says. */
export async function walk(tour: Tour): Promise<void> {
  const began = Date.now();
  for (const [at, { title, run }] of STORIES.entries()) {
    console.log(`\n${at + 1}. ${title}`);
    await run(tour, (line) => console.log(`   ${line}`));
  }
  console.log(`\n✓ All ${STORIES.length} stories are true (${((Date.now() - began) / 1_000).toFixed(1)} s).`);
}

/** How to look at a running backend. */
export function printAddresses(tour: Tour): void {
  const { url } = tour.backend;
  console.log(`Backend:     ${url}`);
  console.log(`Admin API:   ${url}/ops/api/admin`);
  console.log(`Dashboard:   ${url}/ops/`);
  console.log(`Admin token: ${tour.tokens.admin}`);
  console.log(`Database:    ${tour.databaseUrl}`);
}
