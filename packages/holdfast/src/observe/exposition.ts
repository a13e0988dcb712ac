/** Writes metrics in Prometheus' text format, version 0.0.4. */

export const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

export type Labels = Readonly<Record<string, string>>;

/** One metric with its description and samples. */
export interface Family {
  name: string;
  help: string;
  kind: "counter" | "gauge" | "histogram";
  samples: readonly Sample[];
}
export interface Sample {
  /** Appended to the name: `_bucket`, `_sum`, `_count` of a histogram. */
  suffix?: string;
  labels: Labels;
  value: number;
}

export function exposition(families: readonly Family[]): string {
  return families.map(familyText).join("");
}

function familyText({ name, help, kind, samples }: Family): string {
  const head = `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${kind}\n`;
  return head + samples.map((sample) => sampleText(name, sample)).join("");
}

function sampleText(name: string, { suffix = "", labels, value }: Sample): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeLabel(text)}"`);
  const braces = pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
  return `${name}${suffix}${braces} ${numberText(value)}\n`;
}

/** Escapes backslash, quote and line feed in a label's value. */
export function escapeLabel(text: string): string {
  return text.toWellFormed().replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}

function escapeHelp(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

export function numberText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  if (value === Number.NEGATIVE_INFINITY) return "-Inf";
  return String(value);
}

/** Counters by labels. */
export class Counters {
  readonly #counts = new Map<string, { labels: Labels; value: number }>();

  add(labels: Labels, by = 1): void {
    const key = JSON.stringify(Object.values(labels));
    const known = this.#counts.get(key);
    if (known === undefined) this.#counts.set(key, { labels, value: by });
    else known.value += by;
  }

  samples(): Sample[] {
    return [...this.#counts.values()];
  }
}

/** Histograms by labels: the number of values up to each bound. */
export class Histograms {
  readonly #bounds: readonly number[];
  readonly #values = new Map<string, { labels: Labels; buckets: number[]; sum: number; count: number }>();

  /** Bounds in ascending order, without the last one, +Inf. */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
  }

  observe(labels: Labels, value: number): void {
    const key = JSON.stringify(Object.values(labels));
    let known = this.#values.get(key);
    if (known === undefined) {
      known = { labels, buckets: this.#bounds.map(() => 0), sum: 0, count: 0 };
      this.#values.set(key, known);
    }
    known.sum += value;
    known.count++;
    const at = this.#bounds.findIndex((bound) => value <= bound);
    if (at >= 0) known.buckets[at] = (known.buckets[at] ?? 0) + 1;
  }

  samples(): Sample[] {
    return [...this.#values.values()].flatMap(({ labels, buckets, sum, count }) => {
      let upTo = 0;
      const bucket = (bound: number, value: number): Sample => ({
        suffix: "_bucket",
        labels: { ...labels, le: numberText(bound) },
        value,
      });
      return [
        ...this.#bounds.map((bound, index) => bucket(bound, (upTo += buckets[index] ?? 0))),
        bucket(Number.POSITIVE_INFINITY, count),
        { suffix: "_sum", labels, value: sum },
        { suffix: "_count", labels, value: count },
      ];
    });
  }
}
