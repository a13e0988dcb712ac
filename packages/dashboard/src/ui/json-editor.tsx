import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { Icon } from "./icon.js";
import { formatJson, parseJson, readForSending } from "./json-model.js";

export interface Issue {
  path: string;
  message: string;
}

interface JsonEditorProps {
  id: string;
  label: string;
  text: string;
  onInput: (text: string) => void;
  /** Problems that the server found, with paths in this JSON. */
  issues?: readonly Issue[];
  hint?: string;
  rows?: number;
  /** Ctrl+Enter. */
  onSubmit?: () => void;
}

/** A field for JSON. Names the line and column of what is wrong. The Tab key leaves it, as in any field. */
export function JsonEditor({
  id,
  label,
  text,
  onInput,
  issues = [],
  hint,
  rows = 10,
  onSubmit,
}: JsonEditorProps): JSX.Element {
  const ref = useRef<HTMLTextAreaElement>(null);
  const { error } = text.trim() === "" ? {} : readForSending(text);
  const isBad = error !== undefined || issues.length > 0;
  const format = (): void => {
    const { node } = parseJson(text);
    if (node !== undefined) onInput(formatJson(text, node));
  };
  const goToError = (): void => {
    if (error === undefined || ref.current === null) return;
    ref.current.focus();
    ref.current.setSelectionRange(error.at, error.at + 1);
  };
  return (
    <div class="field json-edit">
      <div class="row">
        <label class="label" for={id}>
          {label}
        </label>
        {hint !== undefined && <span class="hint">{hint}</span>}
        <button
          type="button"
          class="btn ghost sm push"
          aria-disabled={text.trim() === "" || parseJson(text).error !== undefined || undefined}
          onClick={format}
        >
          Format
        </button>
      </div>
      <textarea
        ref={ref}
        id={id}
        class={`input area ${isBad ? "bad" : ""}`}
        rows={rows}
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        wrap="off"
        value={text}
        aria-invalid={isBad || undefined}
        aria-describedby={`${id}-error`}
        onInput={(event) => onInput(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || !(event.metaKey || event.ctrlKey)) return;
          event.preventDefault();
          onSubmit?.();
        }}
      />
      <div id={`${id}-error`} aria-live="polite">
        {error !== undefined && (
          <p class="err">
            <Icon name="alert" />
            <button type="button" class="link" onClick={goToError}>
              Line {error.line}, column {error.column}
            </button>
            <span>{error.message}</span>
          </p>
        )}
        <Issues issues={issues} />
      </div>
    </div>
  );
}

/** What the server found wrong, with the path of each field. */
function Issues({ issues }: { issues: readonly Issue[] }): JSX.Element {
  return (
    <>
      {issues.map(({ path, message }) => (
        <p key={`${path} ${message}`} class="err">
          <Icon name="alert" />
          <span>
            {path !== "" && (
              <>
                <code dir="auto">{path}</code>{" "}
              </>
            )}
            {message}
          </span>
        </p>
      ))}
    </>
  );
}

/** The issues below a path of a request, with the rest of their paths: `input.to` below `input` is `to`. */
export function issuesOf(issues: readonly Issue[], name: string): Issue[] {
  return issues
    .filter(({ path }) => path === name || path.startsWith(`${name}.`))
    .map(({ path, message }) => {
      // The server's sentence may begin with the whole path.
      const rest = path.slice(name.length + 1);
      return { path: rest, message: message.startsWith(`${path} `) ? message.slice(path.length + 1) : message };
    });
}
