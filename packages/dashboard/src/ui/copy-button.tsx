import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { toast } from "../app/toasts.js";
import { Button } from "./button.js";

const SHOWN_MS = 1_500;

/** Copies text. A tick confirms it. */
export function CopyButton({ text, label }: { text: string; label: string }): JSX.Element {
  const [isDone, setDone] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), SHOWN_MS);
    } catch {
      // Browsers allow it over HTTPS and on localhost only.
      toast("This browser does not allow copying here. Select the text instead.", { kind: "error" });
    }
  };
  return (
    <Button icon={isDone ? "check" : "copy"} onClick={copy}>
      {isDone ? "Copied" : label}
    </Button>
  );
}
