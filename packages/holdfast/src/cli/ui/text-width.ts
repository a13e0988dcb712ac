/** The width of strings on a terminal. All strings here are clean: see `terminal-text.ts`. */

let segmenter: Intl.Segmenter | null = null;

/** Created on first use: it takes as long as a whole short command. */
function graphemesOf(text: string): Iterable<Intl.SegmentData> {
  segmenter ??= new Intl.Segmenter("en", { granularity: "grapheme" });
  return segmenter.segment(text);
}

// East Asian scripts, fullwidth forms and emoji, which terminals draw two cells wide.
const WIDE =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{16fe0}-\u{18cff}\u{1aff0}-\u{1b2ff}\u{1f200}-\u{1f251}\u{20000}-\u{3fffd}]|^\p{Emoji_Presentation}|\ufe0f/u;
const ZERO_WIDTH = /^[\p{Mn}\p{Me}\p{Cf}]+$/u;

/** The width of a string in terminal cells. */
export function widthOf(text: string): number {
  if (/^[\u0020-\u007e]*$/.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemesOf(text)) width += cellsOf(segment);
  return width;
}

function cellsOf(grapheme: string): number {
  if (ZERO_WIDTH.test(grapheme)) return 0;
  return WIDE.test(grapheme) ? 2 : 1;
}

/** Cuts a string to a width; `…` marks the cut. */
export function cut(text: string, cells: number): string {
  if (widthOf(text) <= cells) return text;
  if (cells < 1) return "";
  let kept = "";
  let width = 0;
  for (const { segment } of graphemesOf(text)) {
    width += cellsOf(segment);
    if (width > cells - 1) break;
    kept += segment;
  }
  return `${kept}…`;
}

/** Wraps words at a width. A longer word gets its own line. */
export function wrap(text: string, cells: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (line !== "" && widthOf(longer) > cells) {
      lines.push(line);
      line = word;
    } else line = longer;
  }
  return [...lines, line];
}
