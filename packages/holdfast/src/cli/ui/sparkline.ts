const BARS = "▁▂▃▄▅▆▇█";

/** Numbers as a line of bars; at most `cells` of them, each the largest of its share. Zero is the lowest bar. */
export function sparkline(values: readonly number[], cells: number): string {
  const shown = values.length <= cells ? values : inShares(values, cells);
  const max = Math.max(...shown, 0);
  return shown.map((value) => BARS[max === 0 ? 0 : Math.ceil((value / max) * (BARS.length - 1))]).join("");
}

function inShares(values: readonly number[], cells: number): number[] {
  return Array.from({ length: cells }, (_, cell) => {
    const [from, to] = [cell, cell + 1].map((edge) => Math.floor((edge * values.length) / cells));
    return Math.max(...values.slice(from, to));
  });
}
