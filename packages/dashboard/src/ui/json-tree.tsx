import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { number } from "../app/format.js";
import { cut, DIRECTION, headOf, summaryOf, type JsonNode } from "./json-model.js";

/** Items shown at first, and added with each "show more". */
const PAGE = 100;
const STRING_LENGTH = 300;
const STRING_PAGE = 20_000;
/** Objects and arrays up to this size are open at first, down to this depth. */
const OPEN_SIZE = 12;
const OPEN_DEPTH = 2;
const REDACTED = "[redacted]";

/** JSON that can be folded. What is closed is not in the page, and long values are cut, so that 100 kB cost nothing. */
export function JsonTree({ node }: { node: JsonNode }): JSX.Element {
  if (node.kind === "object" || node.kind === "array") {
    return <div class="json">{sizeOf(node) === 0 ? <Leaf node={node} /> : <Children node={node} depth={0} />}</div>;
  }
  return (
    <div class="json">
      <Leaf node={node} />
    </div>
  );
}

type Branch = JsonNode & { kind: "object" | "array" };

function sizeOf(node: Branch): number {
  return node.kind === "object" ? node.entries.length : node.items.length;
}

function Children({ node, depth }: { node: Branch; depth: number }): JSX.Element {
  const [shown, setShown] = useState(PAGE);
  const size = sizeOf(node);
  const entries: [string, JsonNode][] =
    node.kind === "object"
      ? node.entries.slice(0, shown)
      : node.items.slice(0, shown).map((item, at) => [String(at), item]);
  return (
    <>
      {entries.map(([key, value], at) => (
        <Entry key={at} name={key} node={value} depth={depth} />
      ))}
      {size > shown && (
        <button type="button" class="more-json" onClick={() => setShown(shown + PAGE)}>
          Show {number(Math.min(PAGE, size - shown))} more of {number(size - shown)}
        </button>
      )}
    </>
  );
}

function Entry({ name, node, depth }: { name: string; node: JsonNode; depth: number }): JSX.Element {
  const isBranch = (node.kind === "object" || node.kind === "array") && sizeOf(node) > 0;
  const [isOpen, setOpen] = useState(isBranch && depth + 1 < OPEN_DEPTH && sizeOf(node) <= OPEN_SIZE);
  if (!isBranch) return <Leaf name={name} node={node} />;
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Key name={name} />
        <span class="sum">
          <bdi>{summaryOf(node)}</bdi>
        </span>
      </summary>
      {isOpen && (
        <span class="kids">
          <Children node={node} depth={depth + 1} />
        </span>
      )}
    </details>
  );
}

function Key({ name }: { name: string }): JSX.Element {
  return (
    <>
      <bdi class="k" title={name.length > 80 ? cut(name, 2_000) : undefined}>
        {escaped(cut(name, 80))}
      </bdi>
      {": "}
    </>
  );
}

function Leaf({ name, node }: { name?: string; node: JsonNode }): JSX.Element {
  return (
    <span class="leaf">
      {name !== undefined && <Key name={name} />}
      <Value node={node} />
    </span>
  );
}

function Value({ node }: { node: JsonNode }): JSX.Element {
  if (node.kind === "string") {
    if (node.value !== REDACTED) return <StringValue value={node.value} />;
    return (
      <span class="red" title="Hidden by the server's redaction rules">
        redacted
      </span>
    );
  }
  if (node.kind === "number") return <span class="n">{node.text}</span>;
  if (node.kind === "word") return <span class="b">{node.text}</span>;
  return <span class="sum">{node.kind === "object" ? "{}" : "[]"}</span>;
}

function escaped(text: string): string {
  return text.replace(DIRECTION, (mark) => `\\u${mark.charCodeAt(0).toString(16)}`);
}

function StringValue({ value }: { value: string }): JSX.Element {
  return (
    <LongText text={value} first={STRING_LENGTH}>
      {(shown) => <bdi class="str">{escaped(JSON.stringify(shown))}</bdi>}
    </LongText>
  );
}

interface LongTextProps {
  text: string;
  /** Characters shown at first. */
  first: number;
  children: (shown: string) => JSX.Element;
}

/** The beginning of a string, and a button that shows more of it. */
export function LongText({ text, first, children }: LongTextProps): JSX.Element {
  const [length, setLength] = useState(first);
  const rest = text.length - length;
  if (rest <= 0) return children(text);
  const more = Math.min(length < STRING_PAGE ? STRING_PAGE - length : STRING_PAGE, rest);
  return (
    <>
      {children(headOf(text, length))}
      <button type="button" class="more-json" onClick={() => setLength(length + more)}>
        … show {number(more)} more of {number(rest)} characters
      </button>
    </>
  );
}
