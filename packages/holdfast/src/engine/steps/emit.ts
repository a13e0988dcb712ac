import { DEFAULTS, LIMITS } from "../../defaults.js";
import { durationMs } from "../../duration.js";
import { InvalidOptionError, PayloadTooLargeError } from "../../errors.js";
import { jsonBytes, NotJson, refuseNul, toJson } from "../../job/json.js";
import type { EmitOptions } from "../../job/step-types.js";
import { optionKeys, refuseUnknown } from "../../options.js";
import type { EmitResult, NewEvent } from "../../store.js";
import type { EngineContext } from "../context.js";
import { inTransaction } from "../enqueue/in-transaction.js";
import { readEventName } from "./event-name.js";

const EMIT_KEYS: ReadonlySet<string> = optionKeys<EmitOptions>({ keep: true, tx: true });

/** `hf.emit`. With `tx` inside the caller's transaction, and then synchronous where the store is. */
export function emitEvent(
  engine: () => EngineContext,
  store: EngineContext["store"],
  name: string,
  payload: unknown,
  options: EmitOptions,
): Promise<EmitResult> {
  if (options?.tx === undefined) return emitNow(engine, name, payload, options);
  return inTransaction(store, () => {
    const event = readEvent(name, payload, options);
    if (!engine().store.capabilities.transactions)
      throw new InvalidOptionError("tx", "is not supported by this store; emit the event after your transaction");
    const emitted = store.emitIn(options.tx, event);
    return emitted instanceof Promise ? emitted : Promise.resolve(emitted);
  });
}

async function emitNow(
  engine: () => EngineContext,
  name: string,
  payload: unknown,
  options: EmitOptions,
): Promise<EmitResult> {
  const [result] = await engine().store.emit([readEvent(name, payload, options)]);
  return result ?? { first: false };
}

function readEvent(name: string, payload: unknown, options: EmitOptions): NewEvent {
  refuseUnknown(options, EMIT_KEYS, "emit");
  const keepMs = options.keep === undefined ? DEFAULTS.eventKeepMs : durationMs(options.keep, "keep");
  if (keepMs > LIMITS.eventKeepMs) throw new InvalidOptionError("keep", "is longer than 90 days, the maximum");
  return { name: readEventName(name), payload: encodeEvent(payload), keepMs };
}

/** `undefined` becomes `{}`, as in the output of a job: `waitFor` returns null only at its timeout. */
function encodeEvent(payload: unknown): string {
  try {
    const text = toJson(payload === undefined ? {} : payload);
    refuseNul(text);
    const bytes = jsonBytes(text);
    if (bytes > LIMITS.payloadBytes)
      throw new PayloadTooLargeError("the payload of the event", bytes, LIMITS.payloadBytes);
    return text;
  } catch (error) {
    if (!(error instanceof NotJson)) throw error;
    const { path, message } = error.issue;
    throw new InvalidOptionError(path === "" ? "payload" : `payload.${path}`, message);
  }
}
