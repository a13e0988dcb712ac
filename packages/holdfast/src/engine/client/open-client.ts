import { Enqueuer } from "../enqueue/enqueuer.js";
import { ErrorGroups } from "../events/error-groups.js";
import { Emitter } from "../events/events.js";
import { logOutages } from "../events/outage-log.js";
import { Reports } from "../events/reports.js";
import { Traces } from "../events/telemetry.js";
import { TransitionReader } from "../events/transition-reader.js";
import type { EngineContext } from "../context.js";
import { HistoryRecorder } from "../history/recorder.js";
import { Maintenance, retentionByState } from "../maintenance.js";
import { openStore } from "../open-store.js";
import { StepWriter } from "../steps/step-writer.js";
import { Settler } from "../worker/settler.js";
import { readClientOptions, type HoldfastOptions } from "./client-options.js";
import { Cursors } from "./cursors.js";
import { newHoldfast, type Holdfast } from "./holdfast.js";

/** Opens the store, migrates its schema, and returns a client. Starts no timer and no worker. */
export async function holdfast(options: HoldfastOptions = {}): Promise<Holdfast> {
  const settings = readClientOptions(options);
  const { clock, logger, redact, retention, reporter, telemetry } = settings;
  const store = typeof settings.store === "string" ? await openStore(settings.store, { clock }) : settings.store;
  const events = new Emitter((name, error) => void logger.error({ event: name, error }, "an event listener threw"));
  const history = new HistoryRecorder({ store, clock, events });
  const parts: Omit<EngineContext, "enqueuer"> = {
    store,
    clock,
    random: settings.random,
    types: settings.types,
    retry: settings.retry,
    events,
    logger,
    settler: new Settler(store, clock, events, retentionByState(retention)),
    traces: telemetry === null ? null : new Traces(telemetry, logger),
    reports: reporter === null ? null : new Reports(reporter, logger, redact),
    history,
    errorGroups: new ErrorGroups({ store, clock, events, history }),
    transitions: new TransitionReader({ store, clock, events }),
    stepWriter: new StepWriter({ store, clock, events }),
    cursors: new Cursors(store),
    redact,
    restore: settings.restore,
    auditRetentionMs: settings.auditRetentionMs,
    definedSchedules: new Set(),
    scheduleDefinedListeners: new Set(),
    warnedQueues: new Set(),
    insertListeners: new Set(),
  };
  const engine = parts as EngineContext;
  Object.assign(engine, { enqueuer: new Enqueuer(engine) });
  logOutages(engine);
  try {
    await store.migrate();
  } catch (error) {
    await store.close().catch(() => {});
    throw error;
  }
  return newHoldfast({ engine, maintenance: new Maintenance(engine, retention), tickMs: settings.tickMs });
}
