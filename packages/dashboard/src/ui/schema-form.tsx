import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Field, Input } from "./field.js";
import { issuesOf, type Issue } from "./json-editor.js";
import { parseJson } from "./json-model.js";
import { initialValue, plainText, textOf, valueOf, type SchemaField } from "./schema-fields.js";

interface SchemaFormProps {
  /** Of the elements, so that two forms can be on one page. */
  id: string;
  fields: readonly SchemaField[];
  value: Readonly<Record<string, unknown>>;
  onChange: (value: Record<string, unknown>) => void;
  /** Problems that the server found, with paths in the value. */
  issues?: readonly Issue[];
}

/** A form for an object of a JSON Schema. Keys that the schema does not name are kept. */
export function SchemaForm({ id, fields, value, onChange, issues = [] }: SchemaFormProps): JSX.Element {
  const set = (name: string, next: unknown): void => {
    const { [name]: _before, ...others } = value;
    if (next === undefined) return onChange(others);
    // In its former place, so that the JSON does not jump.
    onChange(name in value ? { ...value, [name]: next } : { ...others, [name]: next });
  };
  return (
    <div class="schema-form">
      {fields.map((field) => (
        <OneField
          key={field.name}
          id={`${id}-${field.name}`}
          field={field}
          value={Object.hasOwn(value, field.name) ? value[field.name] : undefined}
          onChange={(next) => set(field.name, next)}
          issues={issuesOf(issues, field.name)}
        />
      ))}
    </div>
  );
}

interface OneFieldProps {
  id: string;
  field: SchemaField;
  value: unknown;
  onChange: (value: unknown) => void;
  issues: readonly Issue[];
}

function OneField(props: OneFieldProps): JSX.Element {
  const { id, field, value, onChange, issues } = props;
  const isBad = issues.length > 0;
  const common = {
    id,
    "aria-invalid": isBad || undefined,
    "aria-describedby": `${id}-note`,
    "aria-required": field.isRequired || undefined,
  };
  if (field.kind === "object") return <ObjectField {...props} field={field} />;
  if (field.kind === "boolean" && field.isRequired && !field.isNullable) {
    return (
      <div class="field check-f span-n">
        <label>
          <input
            {...common}
            type="checkbox"
            checked={value === true}
            onChange={(event) => onChange(event.currentTarget.checked)}
          />
          <span>
            <bdi>{field.label}</bdi> <span class="t3">{field.about}</span>
          </span>
        </label>
        {field.description !== null && <p class="hint">{field.description}</p>}
      </div>
    );
  }
  const control = (): JSX.Element => {
    if (field.kind === "boolean" || field.kind === "enum") {
      const options = field.kind === "enum" ? field.options.map(plainText) : ["true", "false"];
      const valueAt = (at: number): string => (field.kind === "enum" ? String(at) : (options[at] ?? ""));
      return (
        <select
          {...common}
          class={`input ${isBad ? "bad" : ""}`}
          value={textOf(field, value)}
          onChange={(event) => onChange(valueOf(field, event.currentTarget.value))}
        >
          <option value="">{field.initial === undefined ? "" : `default: ${plainText(field.initial)}`}</option>
          {options.map((option, at) => (
            <option key={option} value={valueAt(at)}>
              {option}
            </option>
          ))}
        </select>
      );
    }
    if (field.kind === "json") return <JsonText {...common} isBad={isBad} value={value} onChange={onChange} />;
    return <TextControl {...common} isBad={isBad} field={field} value={value} onChange={onChange} />;
  };
  const isWide = field.kind === "json" || field.kind === "list" || (field.kind === "string" && field.isLong);
  return (
    <div class={isWide ? "span-n" : ""}>
      <Field
        id={id}
        label={field.label}
        about={field.kind === "list" ? `${field.about}, one per line` : field.about}
        issues={issues}
        {...(field.description !== null && { hint: field.description })}
      >
        {control()}
      </Field>
    </div>
  );
}

interface ControlProps {
  id: string;
  isBad: boolean;
  value: unknown;
  onChange: (value: unknown) => void;
}

/** Keeps what was typed: "1." is a number, but its text must not become "1". */
function TextControl({ field, value, onChange, isBad, ...rest }: ControlProps & { field: SchemaField }): JSX.Element {
  const [text, setText] = useState(() => textOf(field, value));
  const isSame = JSON.stringify(valueOf(field, text)) === JSON.stringify(value ?? undefined);
  const outside = textOf(field, value);
  // Changed elsewhere, such as in the JSON.
  useEffect(() => {
    if (!isSame) setText(outside);
  }, [outside]);
  const onText = (next: string): void => {
    setText(next);
    onChange(valueOf(field, next));
  };
  if (field.kind === "list" || (field.kind === "string" && field.isLong)) {
    return (
      <textarea
        {...rest}
        class={`input area ${isBad ? "bad" : ""}`}
        rows={3}
        value={text}
        spellcheck={false}
        onInput={(event) => onText(event.currentTarget.value)}
      />
    );
  }
  const placeholder =
    field.initial === undefined || typeof field.initial === "object" ? undefined : plainText(field.initial);
  return (
    <Input
      {...rest}
      class="mono"
      isBad={isBad}
      inputMode={field.kind === "number" ? (field.isInteger ? "numeric" : "decimal") : undefined}
      value={text}
      placeholder={placeholder}
      onText={onText}
    />
  );
}

/** A field that the form has no control for. */
function JsonText({ value, onChange, isBad, ...rest }: ControlProps): JSX.Element {
  const [text, setText] = useState(() => (value === undefined ? "" : JSON.stringify(value, null, 2)));
  const { error } = text.trim() === "" ? {} : parseJson(text);
  return (
    <>
      <textarea
        {...rest}
        class={`input area ${isBad || error !== undefined ? "bad" : ""}`}
        rows={3}
        spellcheck={false}
        value={text}
        onInput={(event) => {
          const next = event.currentTarget.value;
          setText(next);
          if (next.trim() === "") onChange(undefined);
          else if (parseJson(next).error === undefined) onChange(JSON.parse(next));
        }}
      />
      {error !== undefined && (
        <p class="err">
          Line {error.line}, column {error.column}: {error.message}
        </p>
      )}
    </>
  );
}

function ObjectField({
  id,
  field,
  value,
  onChange,
  issues,
}: OneFieldProps & { field: SchemaField & { kind: "object" } }): JSX.Element {
  const isThere = typeof value === "object" && value !== null && !Array.isArray(value);
  return (
    <fieldset class="span-n">
      <legend>
        <bdi>{field.label}</bdi>
        {!field.isRequired && (
          <button type="button" class="link" onClick={() => onChange(isThere ? undefined : initialValue(field.fields))}>
            {isThere ? "Leave out" : "Add"}
          </button>
        )}
      </legend>
      {field.description !== null && <p class="hint">{field.description}</p>}
      {issues.map(
        ({ path, message }) =>
          path === "" && (
            <p key={message} class="field err">
              {message}
            </p>
          ),
      )}
      {(isThere || field.isRequired) && (
        <SchemaForm
          id={id}
          fields={field.fields}
          value={isThere ? (value as Record<string, unknown>) : {}}
          onChange={onChange}
          issues={issues}
        />
      )}
    </fieldset>
  );
}
