import { showSource, toWorkOptions } from "../config/index.js";
import type { WorkOptions } from "../engine/worker/work-options.js";
import type { Context } from "./parse/command.js";

/**
 * For commands that run jobs: what their worker takes, or null where `jobs.enabled` is off. That is told then, and is
 * the command's answer; there is nothing else to do.
 */
export function workOptions({ config, output }: Pick<Context, "config" | "output">): WorkOptions | null {
  const options = toWorkOptions(config);
  if (options === null) {
    const source = showSource(config.sources["jobs.enabled"], config.cwd);
    output.answer({ started: false, reason: "jobs.enabled is false", source }, (page) =>
      page.line(`nothing is started: jobs.enabled is false (${source})`),
    );
  }
  return options;
}
