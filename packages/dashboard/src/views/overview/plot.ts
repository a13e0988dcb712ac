// Draws the charts. Loaded when a chart is first shown.
import uPlot from "uplot";
import { niceTop } from "./range.js";

export interface Layer {
  /** One value per time; null: a gap. */
  values: readonly (number | null)[];
  /** Of the colour: a state. */
  state: string;
  kind: "bars" | "line" | "dashed";
}

export interface PlotData {
  /** Seconds. */
  at: readonly number[];
  layers: readonly Layer[];
}

export interface PlotOptions {
  /** Bars stand on one another, the first layer at the bottom. */
  stacked: boolean;
  /** Steps of the vertical axis. */
  steps: number;
  showValue: (value: number) => string;
  showTime: (seconds: number) => string;
  /** The distance of two times, in seconds. */
  stepSeconds: number;
  /** Called with the index under the pointer and its place in the plot; null: it has left. */
  onPoint?: (at: number | null, left: number) => void;
}

export interface Plot {
  update(data: PlotData): void;
  /** After a change of the theme. */
  redraw(): void;
  destroy(): void;
}

/** Colours of the theme, as the canvas reads them. */
function newColours(probe: HTMLElement): (variable: string) => string {
  const known = new Map<string, string>();
  return (variable) => {
    let colour = known.get(variable);
    if (colour === undefined) {
      probe.style.color = `var(${variable})`;
      colour = getComputedStyle(probe).color;
      probe.style.color = "";
      known.set(variable, colour);
    }
    return colour;
  };
}

export function drawPlot(place: HTMLElement, first: PlotData, options: PlotOptions): Plot {
  const { stacked, steps, showValue, showTime, stepSeconds, onPoint } = options;
  let colour = newColours(place);
  const font = `11px ${getComputedStyle(place).fontFamily}`;
  const pixels = devicePixelRatio;
  // The upper layers are drawn first, and the lower ones above them.
  const order = first.layers.map((_, at) => (stacked ? first.layers.length - 1 - at : at));
  const series = order.map((at): uPlot.Series => {
    const { state, kind } = first.layers[at] ?? { state: "pending", kind: "line" };
    const fill = `--${state}-fill`;
    if (kind === "bars") {
      const paths = uPlot.paths.bars?.({ size: [0.82, 40, 1], align: 1 });
      return { fill: () => colour(fill), width: 0, points: { show: false }, ...(paths !== undefined && { paths }) };
    }
    const isDashed = kind === "dashed";
    return {
      stroke: () => colour(fill),
      width: isDashed ? 1.25 : 1.75,
      points: { show: false },
      ...(isDashed ? { dash: [3, 3] } : { fill: () => withAlpha(colour(fill), 0.1) }),
    };
  });
  const halfStep = stacked ? 0 : stepSeconds / 2;
  const chart = new uPlot(
    {
      width: place.clientWidth,
      height: place.clientHeight,
      padding: [8, 8, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false, setScale: false } },
      scales: {
        x: { time: true, range: (_, min, max) => [min, (max ?? min) + (stacked ? stepSeconds : halfStep)] },
        y: { range: (_, __, max) => [0, niceTop(max)] },
      },
      axes: [
        {
          font,
          size: 22,
          gap: 4,
          stroke: () => colour("--text-3"),
          grid: { show: false },
          ticks: { show: false },
          space: 110,
          values: (_, splits) => splits.map(showTime),
        },
        {
          font,
          size: 44,
          gap: 8,
          stroke: () => colour("--text-3"),
          ticks: { show: false },
          grid: { stroke: () => colour("--line"), width: 1 / pixels },
          splits: (_, __, ___, max) => Array.from({ length: steps + 1 }, (____, at) => (max * at) / steps),
          values: (_, splits) => splits.map(showValue),
        },
      ],
      series: [{}, ...series],
      hooks: {
        setCursor: [
          (self) => {
            const { idx, left } = self.cursor;
            onPoint?.(idx ?? null, (left ?? 0) + self.bbox.left / pixels);
          },
        ],
      },
    },
    dataOf(first),
    place,
  );
  const resized = new ResizeObserver(() => {
    const { clientWidth: width, clientHeight: height } = place;
    if (width > 0 && (width !== chart.width || height !== chart.height)) chart.setSize({ width, height });
  });
  resized.observe(place);
  return {
    update: (data) => chart.setData(dataOf(data)),
    redraw: () => {
      colour = newColours(place);
      chart.redraw(false);
    },
    destroy: () => {
      resized.disconnect();
      chart.destroy();
    },
  };

  function dataOf({ at, layers }: PlotData): uPlot.AlignedData {
    const totals = layers.map(({ values }, nth) =>
      values.map((value, x) =>
        stacked ? layers.slice(0, nth + 1).reduce((sum, below) => sum + (below.values[x] ?? 0), 0) : value,
      ),
    );
    return [[...at], ...order.map((nth) => totals[nth] ?? [])];
  }
}

function withAlpha(colour: string, alpha: number): string {
  return colour.startsWith("rgb(")
    ? colour.replace("rgb(", "rgba(").replace(")", `, ${alpha})`)
    : colour.replace(")", ` / ${alpha})`);
}
