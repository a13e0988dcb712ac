import { dirname, isAbsolute, resolve } from "node:path";
import { durationMs } from "../duration.js";
import type { HoldfastOptions } from "../engine/client/client-options.js";
import type { WorkOptions } from "../engine/worker/work-options.js";
import type { Config } from "./config.js";
import { InvalidConfigError } from "./invalid-config.js";
import type { KeyName } from "./keys.js";
import { showSource } from "./source.js";

/** Converts the configuration to the options of `holdfast()`. */
export function toHoldfastOptions(
  config: Config,
): Required<Pick<HoldfastOptions, "store" | "retry" | "retention" | "scheduler">> & { store: string } {
  const { values } = config;
  const kept = (name: "completed" | "dead" | "cancelled" | "audit"): string | false => {
    const age = values[`retention.${name}`];
    return age === "forever" ? false : age;
  };
  const runsScheduler = values["jobs.enabled"] && values["jobs.scheduler_enabled"];
  return {
    store: storeOf(config),
    retry: {
      maxAttempts: values["jobs.max_retries"] + 1,
      backoff: {
        ...boundsOf(config),
        factor: values["retry.factor"],
        jitter: values["retry.jitter"],
      },
    },
    retention: {
      completed: kept("completed"),
      dead: kept("dead"),
      cancelled: kept("cancelled"),
      audit: kept("audit"),
    },
    scheduler: runsScheduler ? { tick: values["jobs.scheduler_tick_s"] * 1_000 } : false,
  };
}

/**
 * If only one of the two bounds is set and contradicts the default of the other, the set one is used for both. Two set bounds that
 * contradict each other are refused here and not when the configuration is read, because `config set` changes one at a time.
 */
function boundsOf({ values, sources, cwd }: Config): { base: string; max: string } {
  const { "retry.base": base, "retry.max": max } = values;
  if (durationMs(base, "retry.base") <= durationMs(max, "retry.max")) return { base, max };
  const { "retry.base": from, "retry.max": to } = sources;
  if (to.kind === "default") return { base, max: base };
  if (from.kind === "default") return { base: max, max };
  const [where, other] = [showSource(from, cwd), showSource(to, cwd)];
  throw new InvalidConfigError([`retry.base: "${base}" is longer than retry.max, "${max}" (${where}, ${other})`]);
}

/** Converts the configuration to the options of `hf.work()`; null if `jobs.enabled` is off, so no worker is started. */
export function toWorkOptions({ values }: Config): WorkOptions | null {
  if (!values["jobs.enabled"]) return null;
  const queues = values["jobs.queues"];
  return {
    concurrency: values["jobs.concurrency"],
    poll: values["jobs.poll_interval_ms"],
    lease: values["jobs.lease_duration_s"] * 1_000,
    grace: values["jobs.grace_s"] * 1_000,
    ...(queues !== null && queues.length > 0 && { queues }),
  };
}

/** The path of the module with the job types; null if none is set. */
export function modulePath(config: Config): string | null {
  const path = config.values["jobs.module"];
  return path === null ? null : resolve(folderOf(config, "jobs.module"), path);
}

/** Makes the path of a SQLite file absolute, so that a command opens the same database from every folder. */
function storeOf(config: Config): string {
  const store = config.values.store;
  const file = /^sqlite:(?:\/\/)?(?<file>[^/].*)$/s.exec(store)?.groups?.["file"];
  if (file === undefined || isAbsolute(file) || /^:?memory:?$/.test(file)) return store;
  return `sqlite:${resolve(folderOf(config, "store"), file)}`;
}

/** The folder that a relative path refers to: that of the configuration file, or the current folder. */
function folderOf({ sources, file, cwd }: Config, name: KeyName): string {
  const { kind } = sources[name];
  return file !== null && (kind === "file" || kind === "default") ? dirname(file) : cwd;
}
