import { TYPES_INDEX } from "../schema/types-index.js";
import { problem, warning, type Finding, type Patient } from "./finding.js";
import type { Part } from "./shape.js";

const MOST_TOLD = 20;

/** What a schema has not, has otherwise, or has in excess. */
export function differences(expected: readonly Part[], actual: readonly Part[], patient: Patient): Finding[] {
  const key = ({ kind, name }: Part): string => `${kind} ${name}`;
  const there = new Map(actual.map((part) => [key(part), part]));
  const known = new Set(expected.map(key));
  // What goes with a missing table need not be told one by one.
  const lost = expected.filter((part) => part.kind === "table" && !there.has(key(part))).map(({ name }) => `${name}.`);
  // Those have a check of their own, with other advice.
  const invalid = new Set(actual.filter(({ kind }) => kind === "invalid index").map(({ name }) => `index ${name}`));
  const findings: Finding[] = [];
  for (const part of expected) {
    const found = there.get(key(part));
    if (invalid.has(key(part))) continue;
    if (lost.some((table) => part.name.startsWith(table))) continue;
    if (found === undefined) findings.push(missing(part, patient));
    else if (found.definition !== part.definition) findings.push(different(part, found));
  }
  for (const part of actual) {
    if (known.has(key(part))) continue;
    const extra = inExcess(part, patient);
    if (extra !== null) findings.push(extra);
  }
  const more = findings.length - MOST_TOLD;
  if (more <= 0) return findings;
  const rest = problem("schema shape", `${more} more differences`, "Mend those above first, then look again.");
  return [...findings.slice(0, MOST_TOLD), rest];
}

function missing(part: Part, patient: Patient): Finding {
  const found = `the ${part.kind} ${part.name} is missing`;
  const advice =
    part.kind === "index"
      ? `Run ${inSchema(part, patient)}; until then queries read whole tables.`
      : "Put it back as the output of migrations() has it, or restore a backup if it held data.";
  return problem("schema shape", found, advice);
}

/** The statement that makes an index, with the schema in it, and without stopping writers. */
function inSchema({ name, definition }: Part, { settings }: Patient): string {
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
    `the ${part.kind} ${part.name} is not as the migrations make it${how}`,
    "Change it back; the statements of Holdfast are made for the other form.",
  );
}

/** Keys to your own tables, policies and triggers are yours to add; columns and indexes cost every write. */
function inExcess({ kind, name, definition }: Part, { schema }: Patient): Finding | null {
  if (kind === "column") {
    const blocks = definition.includes("NOT NULL") && !/DEFAULT|IDENTITY/.test(definition);
    return blocks
      ? problem(
          "schema shape",
          `the column ${name} is not Holdfast's, must not be NULL and has no default: nothing can be written`,
          `Drop it, or give it a default: ALTER TABLE "${schema}".${name.replace(".", " ALTER COLUMN ")} SET DEFAULT ….`,
        )
      : warning(
          "schema shape",
          `the column ${name} is not Holdfast's`,
          "Keep your own columns in a table of your own: a coming version may use the name, and moved jobs lose the value.",
        );
  }
  // Made when a worker first asks for types.
  if (kind === "index" && name !== `live.${TYPES_INDEX}`) {
    return warning(
      "schema shape",
      `the index ${name} is not Holdfast's: every claim and every settled job has to keep it up`,
      "Drop it if no query of yours needs it.",
    );
  }
  return null;
}
