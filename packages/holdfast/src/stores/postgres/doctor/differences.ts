import { TYPES_INDEX } from "../schema/types-index.js";
import { problem, warning, type Finding, type Target } from "./finding.js";
import type { Part } from "./shape.js";

const MAX_REPORTED = 20;

/** What is missing, different or additional in a schema. */
export function differences(expected: readonly Part[], actual: readonly Part[], target: Target): Finding[] {
  const key = ({ kind, name }: Part): string => `${kind} ${name}`;
  const there = new Map(actual.map((part) => [key(part), part]));
  const known = new Set(expected.map(key));
  // Parts of a missing table are not reported separately.
  const missingTables = expected
    .filter((part) => part.kind === "table" && !there.has(key(part)))
    .map(({ name }) => `${name}.`);
  // Invalid indexes have their own check, with other advice.
  const invalid = new Set(actual.filter(({ kind }) => kind === "invalid index").map(({ name }) => `index ${name}`));
  const findings: Finding[] = [];
  for (const part of expected) {
    const found = there.get(key(part));
    if (invalid.has(key(part))) continue;
    if (missingTables.some((table) => part.name.startsWith(table))) continue;
    if (found === undefined) findings.push(missing(part, target));
    else if (found.definition !== part.definition) findings.push(different(part, found));
  }
  for (const part of actual) {
    if (known.has(key(part))) continue;
    const extra = additional(part, target);
    if (extra !== null) findings.push(extra);
  }
  const more = findings.length - MAX_REPORTED;
  if (more <= 0) return findings;
  const others = problem(
    "schema shape",
    `${more} more differences`,
    "Fix the ones above first, then run doctor again.",
  );
  return [...findings.slice(0, MAX_REPORTED), others];
}

function missing(part: Part, target: Target): Finding {
  const found = `the ${part.kind} ${part.name} is missing`;
  const advice =
    part.kind === "index"
      ? `Run ${inSchema(part, target)}; until then queries read whole tables.`
      : "Create it as in the output of migrations(), or restore a backup if it contained data.";
  return problem("schema shape", found, advice);
}

/** The statement that creates an index, with the schema, and without blocking writers. */
function inSchema({ name, definition }: Part, { settings }: Target): string {
  const [table = ""] = name.split(".");
  return definition
    .replace(/^CREATE (UNIQUE )?INDEX /, "CREATE $1INDEX CONCURRENTLY ")
    .replace(` ON ${table} `, ` ON ${settings.schema}.${table} `);
}

function different(part: Part, found: Part): Finding {
  const isLong = part.definition.length + found.definition.length > 300;
  const how = isLong ? "" : `: ${found.definition} instead of ${part.definition}`;
  return problem(
    "schema shape",
    `the ${part.kind} ${part.name} differs from the migrations${how}`,
    "Change it back: the statements of Holdfast rely on it.",
  );
}

/** Foreign keys, policies and triggers of your own are fine; additional columns and indexes slow every write. */
function additional({ kind, name, definition }: Part, { schema }: Target): Finding | null {
  if (kind === "column") {
    const blocks = definition.includes("NOT NULL") && !/DEFAULT|IDENTITY/.test(definition);
    return blocks
      ? problem(
          "schema shape",
          `the column ${name} is not Holdfast's, is NOT NULL and has no default: every insert fails`,
          `Drop it, or give it a default: ALTER TABLE "${schema}".${name.replace(".", " ALTER COLUMN ")} SET DEFAULT ….`,
        )
      : warning(
          "schema shape",
          `the column ${name} is not Holdfast's`,
          "Store your own columns in your own table: a later version may use the name, and jobs lose the value when they move.",
        );
  }
  // Created when a worker first claims by types.
  if (kind === "index" && name !== `live.${TYPES_INDEX}`) {
    return warning(
      "schema shape",
      `the index ${name} is not Holdfast's: every claim and every settled job has to update it`,
      "Drop it if none of your queries needs it.",
    );
  }
  return null;
}
