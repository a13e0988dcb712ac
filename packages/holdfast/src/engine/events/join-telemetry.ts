import type { Logger } from "./logger.js";
import { callInside, guarded, type Telemetry } from "./telemetry.js";

/**
 * Combines two telemetries. A handler runs inside the outer trace and, within that, the inner one. Jobs carry the trace context of
 * the outer, or of the inner if the outer has none. If one of them throws, the error is logged and the other is still called.
 */
export function joinTelemetry(outer: Telemetry, inner: Telemetry, logger: Logger): Telemetry {
  const both = [outer, inner] as const;
  const guard = <Result>(call: () => Result): Result | undefined => guarded(logger, call);
  return {
    enqueue(call) {
      const traces = both.map((telemetry) => guard(() => telemetry.enqueue(call)));
      const carriers = traces.map((trace) => guard(() => trace?.carrier));
      return {
        carrier: carriers.find((carrier) => carrier !== undefined && carrier !== null) ?? null,
        end(end) {
          for (const trace of traces) guard(() => trace?.end(end));
        },
      };
    },
    run(run) {
      const [around, within] = both.map((telemetry) => guard(() => telemetry.run(run)));
      return {
        inside<Output>(handler: () => Output): Output {
          const inInner = (): Output => (within === undefined ? handler() : callInside(within, handler, guard));
          return around === undefined ? inInner() : callInside(around, inInner, guard);
        },
        end(end) {
          guard(() => around?.end(end));
          guard(() => within?.end(end));
        },
      };
    },
    attach(client) {
      const detaches = both.map((telemetry) => guard(() => telemetry.attach?.(client)));
      return () => {
        for (const detach of detaches) guard(() => detach?.());
      };
    },
  };
}
