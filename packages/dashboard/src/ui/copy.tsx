import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { toast } from "../app/toasts.js";
import { Icon } from "./icon.js";

const CONFIRMED_MS = 1_500;

/** Copies a text; a tick confirms it. With `children` it is a button with a word, otherwise an icon. */
export function Copy({ text, label, children }: { text: string; label: string; children?: string }): JSX.Element {
  const [isDone, setDone] = useState(false);
  useEffect(() => {
    if (!isDone) return;
    const timer = setTimeout(() => setDone(false), CONFIRMED_MS);
    return () => clearTimeout(timer);
  }, [isDone]);
  const copy = async (): Promise<void> => {
    try {
      await write(text);
      setDone(true);
    } catch {
      toast("The browser does not allow copying. Select the text and copy it.", { kind: "error" });
    }
  };
  return (
    <button
      type="button"
      class={`${children === undefined ? "copy" : "btn ghost sm"} ${isDone ? "copied" : ""}`}
      aria-label={isDone ? "Copied" : label}
      title={label}
      onClick={() => void copy()}
    >
      <Icon name={isDone ? "check" : "copy"} />
      {children !== undefined && <span>{isDone ? "Copied" : children}</span>}
    </button>
  );
}

async function write(text: string): Promise<void> {
  // Over HTTP on another machine than this one there is no clipboard API.
  if ((navigator as { clipboard?: Clipboard }).clipboard !== undefined) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr";
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  if (!isCopied) throw new Error("not allowed");
}
