import { effect, useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { theme } from "../../app/theme.js";
import type { Plot, PlotData, PlotOptions } from "./plot.js";

interface ChartProps extends Omit<PlotOptions, "onPoint"> {
  data: PlotData;
  /** What it shows, in a sentence. */
  label: string;
  class: string;
  /** Another value: drawn anew, as its axes or layers differ. */
  kind: string;
  /** What is at a time, shown beside the pointer. */
  tip: (at: number) => ComponentChildren;
}

const TIP_WIDTH = 190;

/** A chart over time, with what is under the pointer beside it. */
export function Chart({ data, label, class: extra, kind, tip, ...options }: ChartProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot | null>(null);
  const newest = useRef(data);
  const point = useSignal<{ at: number; left: number } | null>(null);
  newest.current = data;
  useEffect(() => {
    let isGone = false;
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const redraw = (): void => plot.current?.redraw();
    dark.addEventListener("change", redraw);
    // After the theme is applied.
    const off = effect(() => {
      if (theme.value) queueMicrotask(redraw);
    });
    void import("./plot.js").then(({ drawPlot }) => {
      if (isGone || place.current === null) return;
      const onPoint: PlotOptions["onPoint"] = (at, left) => (point.value = at === null ? null : { at, left });
      plot.current = drawPlot(place.current, newest.current, { ...options, onPoint });
    });
    return () => {
      isGone = true;
      off();
      dark.removeEventListener("change", redraw);
      plot.current?.destroy();
      plot.current = null;
      point.value = null;
    };
  }, [kind]);
  useEffect(() => plot.current?.update(data), [data]);
  const { value: shown } = point;
  const isRight = shown !== null && shown.left + TIP_WIDTH + 24 > (place.current?.clientWidth ?? 0);
  return (
    <div class={`time-plot ${extra}`}>
      <div ref={place} class="draw-on" role="img" aria-label={label} />
      {shown !== null && shown.at < data.at.length && (
        <div class="tip" style={{ left: `${isRight ? shown.left - TIP_WIDTH - 12 : shown.left + 12}px` }}>
          {tip(shown.at)}
        </div>
      )}
    </div>
  );
}
