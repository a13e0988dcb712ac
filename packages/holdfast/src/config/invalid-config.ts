import { HoldfastError } from "../errors.js";

/** The configuration is invalid. Each of `problems` names the key, the value and its source. */
export class InvalidConfigError extends HoldfastError {
  readonly problems: readonly string[];
  constructor(problems: readonly string[]) {
    const [first = "", ...more] = problems;
    const all = problems.map((problem) => `\n  ${problem}`).join("");
    super("INVALID_CONFIG", more.length === 0 ? first : `the configuration has ${problems.length} problems:${all}`);
    this.problems = problems;
  }
}
