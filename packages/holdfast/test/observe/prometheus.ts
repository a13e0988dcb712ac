/** A strict parser of Prometheus' text format 0.0.4. Throws for anything that the format does not allow. */

export interface ReadFamily {
  name: string;
  help: string;
  kind: string;
  samples: { name: string; labels: Record<string, string>; value: number }[];
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*/;
const LABEL = /^[a-zA-Z_][a-zA-Z0-9_]*/;
const NUMBER = /^(?:[+-]?Inf|NaN|[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/;

export function readMetrics(text: string): Map<string, ReadFamily> {
  if (!text.endsWith("\n")) throw new Error("the last line has no end");
  const families = new Map<string, ReadFamily>();
  let family: ReadFamily | undefined;
  const seen = new Set<string>();
  for (const line of text.slice(0, -1).split("\n")) {
    const help = /^# HELP (\S+) ([^\n]*)$/.exec(line);
    const type = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(line);
    if (help !== null) {
      const [, name = "", description = ""] = help;
      if (families.has(name)) throw new Error(`${name} comes twice`);
      family = { name, help: description, kind: "", samples: [] };
      families.set(name, family);
    } else if (type !== null) {
      if (family === undefined || family.name !== type[1] || family.kind !== "") throw new Error(`stray: ${line}`);
      family.kind = type[2] ?? "";
    } else {
      const sample = readSample(line);
      const suffixes = family?.kind === "histogram" ? ["_bucket", "_sum", "_count"] : [""];
      if (family === undefined || !suffixes.some((suffix) => sample.name === `${family?.name}${suffix}`)) {
        throw new Error(`not of the metric before it: ${line}`);
      }
      const identity = JSON.stringify([sample.name, Object.entries(sample.labels)]);
      if (seen.has(identity)) throw new Error(`comes twice: ${line}`);
      seen.add(identity);
      family.samples.push(sample);
    }
  }
  for (const read of families.values()) if (read.kind === "histogram") checkHistogram(read);
  return families;
}

function readSample(line: string): ReadFamily["samples"][number] {
  const name = NAME.exec(line)?.[0];
  if (name === undefined) throw new Error(`no name: ${line}`);
  let rest = line.slice(name.length);
  const labels: Record<string, string> = {};
  if (rest.startsWith("{")) {
    do {
      rest = rest.slice(1);
      const label = LABEL.exec(rest)?.[0];
      if (label === undefined || !rest.startsWith(`${label}="`)) throw new Error(`no label: ${line}`);
      if (Object.hasOwn(labels, label)) throw new Error(`label twice: ${line}`);
      const value = /^"((?:[^"\\\n]|\\["\\n])*)"/.exec(rest.slice(label.length + 1));
      if (value === null) throw new Error(`no value: ${line}`);
      labels[label] = (value[1] ?? "").replaceAll(/\\(.)/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped));
      rest = rest.slice(label.length + 1 + value[0].length);
    } while (rest.startsWith(","));
    if (!rest.startsWith("}")) throw new Error(`not closed: ${line}`);
    rest = rest.slice(1);
  }
  const number = rest.slice(1);
  if (!rest.startsWith(" ") || !NUMBER.test(number)) throw new Error(`no number: ${line}`);
  return { name, labels, value: Number(number.replace("Inf", "Infinity")) };
}

function checkHistogram({ name, samples }: ReadFamily): void {
  const groups = new Map<string, { bounds: [number, number][]; sum?: number; count?: number }>();
  for (const sample of samples) {
    const { le, ...others } = sample.labels;
    const key = JSON.stringify(others);
    const group = groups.get(key) ?? { bounds: [] };
    groups.set(key, group);
    if (sample.name === `${name}_sum`) group.sum = sample.value;
    else if (sample.name === `${name}_count`) group.count = sample.value;
    else group.bounds.push([Number((le ?? "").replace("Inf", "Infinity")), sample.value]);
  }
  for (const [key, { bounds, sum, count }] of groups) {
    for (const [index, [bound, value]] of bounds.entries()) {
      const [lower, fewer] = bounds[index - 1] ?? [Number.NEGATIVE_INFINITY, 0];
      if (!(bound > lower) || value < fewer) throw new Error(`${name}${key}: buckets are not cumulative`);
    }
    const [last, all] = bounds.at(-1) ?? [0, 0];
    if (last !== Number.POSITIVE_INFINITY || all !== count || sum === undefined) {
      throw new Error(`${name}${key}: the last bucket must be +Inf and have all`);
    }
  }
}
