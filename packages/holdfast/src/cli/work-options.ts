import { showSource, toWorkOptions } from "../config/index.js";
import type { WorkOptions } from "../engine/worker/work-options.js";
import type { Context } from "./parse/command.js";

/**
 * The worker options of a command that runs jobs. Returns null if `jobs.enabled` is off: that is then printed as the
 * command's result, and the command exits.
 */
export function workOptions({ config, output }: Pick<Context, "config" | "output">): WorkOptions | null {
  const options = toWorkOptions(config);
  if (options === null) {
    const source = showSource(config.sources["jobs.enabled"], config.cwd);
    output.result({ started: false, reason: "jobs.enabled is false", source }, (writer) =>
      writer.line(`Nothing started: jobs.enabled is false (${source})`),
    );
  }
  return options;
}
