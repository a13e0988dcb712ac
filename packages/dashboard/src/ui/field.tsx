import type { ComponentChildren, JSX } from "preact";
import type { Issue } from "./json-editor.js";
import { NotedField } from "./noted-field.js";

interface FieldProps {
  id: string;
  label: string;
  /** Beside the label: "integer, 1 or more". */
  about?: string;
  hint?: string;
  issues?: readonly Issue[];
  children: ComponentChildren;
}

/** A label, a control with the same id, and what is wrong with its value. */
export function Field({ id, label, about = "", hint, issues = [], children }: FieldProps): JSX.Element {
  return (
    <NotedField
      id={id}
      label={
        <>
          <bdi>{label}</bdi>
          {about !== "" && <span class="t3"> {about}</span>}
        </>
      }
      error={issues.length === 0 ? undefined : issues.map(({ message }) => message).join(" ")}
      hint={hint}
    >
      {children}
    </NotedField>
  );
}

export interface InputProps {
  id: string;
  value: string;
  onInput: (text: string) => void;
  isBad?: boolean;
  isMono?: boolean;
  /** Default: text. */
  type?: "text" | "datetime-local";
  inputMode?: "numeric";
  placeholder?: string;
  /** The id of a `<datalist>`. */
  list?: string;
  isRequired?: boolean;
  hasFocus?: boolean;
}

export function Input({
  id,
  value,
  onInput,
  isBad = false,
  isMono = false,
  type = "text",
  ...rest
}: InputProps): JSX.Element {
  const { inputMode, placeholder, list, isRequired, hasFocus } = rest;
  return (
    <input
      id={id}
      class={`input ${isMono ? "mono" : ""} ${isBad ? "bad" : ""}`}
      type={type}
      // Seconds.
      step={type === "datetime-local" ? "1" : undefined}
      inputMode={inputMode}
      placeholder={placeholder}
      list={list}
      required={isRequired}
      autofocus={hasFocus}
      spellcheck={false}
      autocomplete="off"
      value={value}
      aria-invalid={isBad || undefined}
      aria-describedby={`${id}-note`}
      onInput={(event) => onInput(event.currentTarget.value)}
    />
  );
}

interface SelectProps {
  id: string;
  value: string;
  options: readonly (readonly [value: string, words: string])[];
  onChange: (value: string) => void;
}

export function Select({ id, value, options, onChange }: SelectProps): JSX.Element {
  return (
    <select id={id} class="input" value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      {options.map(([each, words]) => (
        <option key={each} value={each}>
          {words}
        </option>
      ))}
    </select>
  );
}
