import { InvalidOptionError } from "../../errors.js";
import { show } from "../../options.js";
import { auditCases } from "./audit.js";
import { changeCases } from "./changes.js";
import { claimCases } from "./claim.js";
import { concurrencyCases } from "./concurrency.js";
import { errorGroupCases } from "./error-groups.js";
import { firingCases } from "./firing.js";
import { firingRaceCases } from "./firing-races.js";
import { firedSlotCases } from "./firing-slots.js";
import { STORE_SUBJECTS, type StoreHarness, type StoreSubject, type TestRunner } from "./harness.js";
import { historyRecordCases } from "./history-records.js";
import { insertCases } from "./insert.js";
import { keyCases } from "./keys.js";
import { leaseCases } from "./leases.js";
import { lifecycleCases } from "./lifecycle.js";
import { noteCases } from "./notes.js";
import { operationCases } from "./operations.js";
import { ownSettingsCases } from "./own-settings.js";
import { pagingCases } from "./paging.js";
import { processCases } from "./processes.js";
import { queryCases } from "./queries.js";
import { caseDefiner, type DefineCase } from "./scene.js";
import { scheduleCases } from "./schedules.js";
import { settleCases } from "./settle.js";
import { stepCases } from "./steps.js";
import { tokenCases } from "./tokens.js";
import { traceCases } from "./trace.js";
import { transitionCases } from "./transitions.js";
import { transactionCases } from "./transactions.js";
import { updateCases } from "./updates.js";
import { waitCases } from "./waits.js";
import { maintenanceCases } from "./maintenance.js";

export { STORE_SUBJECTS } from "./harness.js";
export type {
  CallerTransaction,
  StoreHarness,
  StoreSubject,
  StoreUnderTest,
  TestContext,
  TestRunner,
} from "./harness.js";

const CASES: Readonly<Record<StoreSubject, (test: DefineCase) => void>> = {
  insert: insertCases,
  "insert in a transaction": transactionCases,
  "unique keys": keyCases,
  claim: claimCases,
  "trace context": traceCases,
  "start, extend and lost leases": leaseCases,
  settle: settleCases,
  note: noteCases,
  steps: stepCases,
  "waits and events": waitCases,
  "cancel, retry and remove": changeCases,
  "update and keys": updateCases,
  "settings, parents and orders": ownSettingsCases,
  maintenance: maintenanceCases,
  queries: (test) => {
    queryCases(test);
    pagingCases(test);
  },
  schedules: scheduleCases,
  "schedules: fire": firingCases,
  "schedules: slots": firedSlotCases,
  "audit log": auditCases,
  tokens: tokenCases,
  operations: operationCases,
  "error groups": errorGroupCases,
  "history records": historyRecordCases,
  "migrate, close and hints": lifecycleCases,
  transitions: transitionCases,
  concurrency: concurrencyCases,
  "schedules: concurrency": firingRaceCases,
  processes: processCases,
};

/**
 * The conformance suite: everything the engine relies on in a store. A store that passes it works with Holdfast.
 *
 * ```ts
 * import { describe, it } from "vitest"; // or "node:test"
 * import { exerciseStore } from "holdfast/testing";
 *
 * exerciseStore({ describe, it }, {
 *   name: "my store",
 *   async create(clock) {
 *     const address = await newDatabase();
 *     const again = () => openMyStore(address, { clock });
 *     const store = await again();
 *     await store.migrate();
 *     return { store, again, address, dispose: () => dropDatabase(address) };
 *   },
 *   opener: new URL("./open-my-store.js", import.meta.url).href,
 * });
 * ```
 */
export function exerciseStore(runner: TestRunner, harness: StoreHarness): void {
  const define = caseDefiner(runner, harness);
  const subjects = harness.subjects ?? STORE_SUBJECTS;
  for (const subject of subjects) {
    if (!STORE_SUBJECTS.includes(subject))
      throw new InvalidOptionError("subjects", `${show(subject)} is none of ${STORE_SUBJECTS.map(show).join(", ")}`);
  }
  runner.describe(harness.name, () => {
    for (const subject of subjects) runner.describe(subject, () => CASES[subject](define));
  });
}
