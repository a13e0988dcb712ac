/** Tells on stderr what is being measured and how far it is; stdout is for the report alone. */
export interface Progress {
  step(text: string): void;
  within(fraction: number): void;
  end(): void;
}

/** On a terminal one line that changes, elsewhere a line a step. */
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
