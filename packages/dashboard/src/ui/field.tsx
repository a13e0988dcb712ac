import type { ComponentChildren, JSX, TargetedEvent } from "preact";
import { Icon } from "./icon.js";
import type { Issue } from "./json-editor.js";

interface Labelled {
  id: string;
  label: ComponentChildren;
  /** Beside the label: "integer, 1 or more". */
  about?: string;
  hint?: ComponentChildren;
  /** What is wrong with the value. */
  error?: string | undefined;
  issues?: readonly Issue[] | undefined;
}

/** A label, a control with the same id, and below it what is wrong with its value, or a hint. */
export function Field({
  id,
  label,
  about = "",
  hint,
  issues = [],
  error = issues.map(({ message }) => message).join(" "),
  children,
}: Labelled & { children: ComponentChildren }): JSX.Element {
  return (
    <div class="field">
      <label for={id}>
        <bdi>{label}</bdi>
        {about !== "" && <span class="t3"> {about}</span>}
      </label>
      {children}
      <div id={`${id}-note`} aria-live="polite">
        {error !== "" ? (
          <p class="err">
            <Icon name="alert" />
            <span dir="auto">{error}</span>
          </p>
        ) : (
          hint !== undefined && <p class="hint">{hint}</p>
        )}
      </div>
    </div>
  );
}

export interface InputProps {
  id: string;
  value: string;
  onText: (text: string) => void;
  isBad?: boolean;
  class?: string;
  /** Offered while it is edited. */
  options?: readonly string[] | undefined;
  // As of `<input>`.
  type?: "text" | "password" | "number" | "datetime-local";
  inputMode?: "numeric" | "decimal" | undefined;
  autocomplete?: "current-password";
  autofocus?: boolean;
  required?: boolean;
  placeholder?: string | undefined;
  maxLength?: number;
  min?: number;
  max?: number;
  step?: number;
  onSelect?: (event: TargetedEvent<HTMLInputElement>) => void;
  onKeyUp?: (event: TargetedEvent<HTMLInputElement>) => void;
  onBlur?: () => void;
}

/** `${id}-note` describes it: see `Field`. */
export function Input({
  id,
  value,
  onText,
  isBad = false,
  class: extra = "",
  options,
  ...rest
}: InputProps): JSX.Element {
  return (
    <>
      <input
        id={id}
        class={`input ${extra} ${isBad ? "bad" : ""}`}
        spellcheck={false}
        autocomplete="off"
        dir="auto"
        list={options && `${id}-list`}
        value={value}
        aria-invalid={isBad || undefined}
        aria-describedby={`${id}-note`}
        onInput={(event) => onText(event.currentTarget.value)}
        // The types of the attributes depend on the type of the control, which is not known here.
        {...(rest as object)}
      />
      {options !== undefined && (
        <datalist id={`${id}-list`}>
          {options.map((option) => (
            <option key={option} value={option} />
          ))}
        </datalist>
      )}
    </>
  );
}

export type TextFieldProps = Labelled & InputProps;

export function TextField({ label, about, hint, error, issues, ...input }: TextFieldProps): JSX.Element {
  const isBad = error !== undefined || (issues ?? []).length > 0;
  return (
    <Field
      id={input.id}
      label={label}
      {...(about !== undefined && { about })}
      hint={hint}
      error={error}
      issues={issues}
    >
      <Input isBad={isBad} {...input} />
    </Field>
  );
}

interface SelectFieldProps extends Labelled {
  value: string;
  /** A value and its words. */
  options: readonly (readonly [value: string, words: string])[];
  onValue: (value: string) => void;
  "aria-describedby"?: string;
}

export function SelectField({ label, hint, error, options, onValue, ...rest }: SelectFieldProps): JSX.Element {
  return (
    <Field id={rest.id} label={label} hint={hint} error={error}>
      <select class="input" onChange={(event) => onValue(event.currentTarget.value)} {...rest}>
        {options.map(([value, words]) => (
          <option key={value} value={value}>
            {words}
          </option>
        ))}
      </select>
    </Field>
  );
}
