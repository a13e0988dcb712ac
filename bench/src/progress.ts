/** Shows the progress on stderr. stdout is only for the report. */
export interface Progress {
  step(text: string): void;
  within(fraction: number): void;
  end(): void;
}

/** One changing line on a terminal, otherwise one line per step. */
export function stderrProgress(): Progress {
  const { stderr } = process;
  if (!stderr.isTTY) return { step: (text) => void stderr.write(`${text}\n`), within: () => {}, end: () => {} };
  let current = "";
  const show = (text: string): void => void stderr.write(`\r\u001B[K${text}`);
  return {
    step(text) {
      current = text;
      show(text);
    },
    within: (fraction) => show(`${current}  ${Math.min(100, Math.round(fraction * 100))} %`),
    end: () => show(""),
  };
}
