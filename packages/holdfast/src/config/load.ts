/** For applications that have the same settings as the `holdfast` command. */
import type { HoldfastOptions } from "../engine/client/client-options.js";
import type { WorkOptions } from "../engine/worker/work-options.js";
import { optionKeys, refuseUnknown } from "../options.js";
import { readConfig } from "./config.js";
import { toHoldfastOptions, toWorkOptions } from "./options.js";

export { InvalidConfigError } from "./invalid-config.js";

export interface LoadConfigOptions {
  /** The file. Default: that of `HOLDFAST_CONFIG`, or the nearest `holdfast.toml` in `cwd` and its parents, if there is one. */
  file?: string;
  /** Where the search for the file begins. Default: the current folder. */
  cwd?: string;
  /** Variables, such as `HOLDFAST_JOBS_ENABLED`. Default: `process.env`. */
  env?: Readonly<Record<string, string | undefined>>;
}

/** The settings of `holdfast.toml` and of `HOLDFAST_*` variables, as options. */
export interface LoadedConfig {
  /** For `holdfast()`, with your `jobs`. */
  readonly holdfast: Pick<HoldfastOptions, "retry" | "retention" | "scheduler"> & { readonly store: string };
  /** For `hf.work()`; null if `jobs.enabled` is false: then no worker is to be started. */
  readonly work: WorkOptions | null;
  /** The file that was read; null if there is none. */
  readonly file: string | null;
}

const OPTIONS = optionKeys<LoadConfigOptions>({ file: true, cwd: true, env: true });

/**
 * Reads `holdfast.toml` and `HOLDFAST_*` variables as the `holdfast` command does. Throws `InvalidConfigError` with all problems.
 *
 * ```ts
 * const config = loadConfig();
 * const hf = await holdfast({ ...config.holdfast, jobs: [resize] });
 * if (config.work !== null) hf.work(config.work);
 * ```
 */
export function loadConfig(options: LoadConfigOptions = {}): LoadedConfig {
  refuseUnknown(options, OPTIONS, "loadConfig");
  const { file, cwd = process.cwd(), env = process.env } = options;
  const config = readConfig({ cwd, env, ...(file !== undefined && { file }) });
  return { holdfast: toHoldfastOptions(config), work: toWorkOptions(config), file: config.file };
}
