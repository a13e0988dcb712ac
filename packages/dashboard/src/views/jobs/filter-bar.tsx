import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { number } from "../../app/format.js";
import { addShortcuts } from "../../app/keys.js";
import { Button } from "../../ui/button.js";
import { Icon } from "../../ui/icon.js";
import { suggest, type Sources, type Suggestion } from "./filter-completion.js";
import { splitTokens, type Token } from "./filter.js";
import { readToken } from "./filter-text.js";

interface FilterBarProps {
  /** The filter that is applied. */
  q: string;
  read: (q: string) => readonly Token[];
  sources: () => Sources;
  onApply: (q: string) => void;
}

/** The tokens of the filter, and a field for the next one. What is typed is applied with a space, Enter, or a suggestion. */
export function FilterBar({ q, read, sources, onApply }: FilterBarProps): JSX.Element {
  const [base, setBase] = useState<readonly string[]>(() => splitTokens(q));
  const [draft, setDraft] = useState("");
  const [isOpen, setOpen] = useState(false);
  /** Undefined: not chosen with the arrow keys. */
  const [chosen, setChosen] = useState<number | undefined>(undefined);
  const input = useRef<HTMLInputElement>(null);
  const bar = useRef<HTMLDivElement>(null);

  const edit = (next: readonly string[], text: string): void => {
    setBase(next);
    setDraft(text);
    setChosen(undefined);
  };
  // Before the next key: what was typed meanwhile would be lost.
  useLayoutEffect(() => edit(splitTokens(q), ""), [q]);
  useLayoutEffect(() => addShortcuts([{ key: "/", about: "Filter the jobs", run: () => input.current?.focus() }]), []);

  const apply = (tokens: readonly string[]): void => {
    edit(tokens, "");
    onApply(tokens.join(" "));
  };
  const suggestions = isOpen ? suggest(draft, sources()) : [];
  const active = chosen ?? (isMeant(draft, suggestions) ? 0 : -1);
  const choose = ({ text, isWhole }: Suggestion): void => {
    if (isWhole) return apply([...base, text]);
    edit(base, text);
    setOpen(true);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const { key } = event;
    const suggestion = suggestions[active];
    if (key === "Enter") {
      if (suggestion !== undefined) choose(suggestion);
      else apply([...base, ...splitTokens(draft)]);
    } else if (key === "Tab" && draft !== "" && suggestions.length > 0 && !event.shiftKey)
      choose(suggestions[Math.max(0, active)] as Suggestion);
    else if (key === " " && isWhole(draft)) apply([...base, draft]);
    else if (key === "Backspace" && draft === "" && base.length > 0) edit(base.slice(0, -1), base.at(-1) ?? "");
    else if (key === "ArrowDown" || key === "ArrowUp") {
      setOpen(true);
      if (suggestions.length > 0) {
        const step = key === "ArrowDown" ? 1 : -1;
        setChosen((Math.max(active, step === 1 ? -1 : 0) + step + suggestions.length) % suggestions.length);
      }
    } else if (key === "Escape") {
      if (isOpen && suggestions.length > 0) setOpen(false);
      else input.current?.blur();
    } else return;
    event.preventDefault();
  };
  const leave = (event: FocusEvent): void => {
    if (event.relatedTarget instanceof Node && bar.current?.contains(event.relatedTarget) === true) return;
    setOpen(false);
    if (isWhole(draft)) apply([...base, draft]);
    else if (draft === "" && base.join(" ") !== splitTokens(q).join(" ")) apply(base);
  };
  const tokens = read(base.join(" "));
  return (
    <div class="filter jobs-filter" ref={bar} onFocusOut={leave}>
      <Icon name="search" />
      {tokens.map((token, index) => (
        <TokenChip
          key={index}
          token={token}
          onEdit={() => {
            edit(base.toSpliced(index, 1), token.text);
            input.current?.focus();
          }}
          onRemove={() => {
            apply(base.toSpliced(index, 1));
            input.current?.focus();
          }}
        />
      ))}
      <input
        ref={input}
        class="draft"
        role="combobox"
        aria-label="Filter jobs"
        aria-autocomplete="list"
        aria-expanded={suggestions.length > 0}
        aria-controls="filter-suggestions"
        aria-activedescendant={suggestions[active] === undefined ? undefined : `suggestion-${active}`}
        placeholder={tokens.length === 0 ? "Filter, such as state:dead type:email.* created:<1h" : ""}
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        enterkeyhint="search"
        value={draft}
        onFocus={() => setOpen(true)}
        onClick={() => setOpen(true)}
        onInput={(event) => {
          edit(base, event.currentTarget.value);
          setOpen(true);
        }}
        onKeyDown={onKeyDown}
      />
      {base.length > 0 || draft !== "" ? (
        <Button kind="ghost" small onClick={() => apply([])}>
          Clear
        </Button>
      ) : (
        <kbd class="kbd">/</kbd>
      )}
      {suggestions.length > 0 && (
        <Suggestions
          items={suggestions}
          active={active}
          // Only now: to read it, the browser must lay out the page at once.
          at={Math.max(0, (input.current?.offsetLeft ?? 0) - 12)}
          onChoose={choose}
        />
      )}
    </div>
  );
}

/** Enter takes the first suggestion: what is typed would not be a filter, or is only the beginning of a name. */
function isMeant(draft: string, suggestions: readonly Suggestion[]): boolean {
  if (draft === "") return false;
  const { field, value } = readToken(draft);
  if (field === "" || value === "" || field === "state") return true;
  // Names have stars and commas only where several are meant.
  const isName = (field === "type" || field === "queue") && !/[*,"]/.test(value);
  return isName && !suggestions.some(({ text }) => text === draft);
}

/** It has a field and a value, and no open quotation mark. */
function isWhole(draft: string): boolean {
  const { field, value, isOpen } = readToken(draft);
  return field !== "" && value !== "" && !isOpen;
}

function TokenChip({
  token: { text, problem },
  onEdit,
  onRemove,
}: {
  token: Token;
  onEdit: () => void;
  onRemove: () => void;
}): JSX.Element {
  const colon = text.indexOf(":") + 1;
  return (
    <span class={`token ${problem === null ? "" : "invalid"}`} title={problem ?? text}>
      <button
        type="button"
        class="edit"
        aria-label={`Change ${text}${problem === null ? "" : `. Not used: ${problem}`}`}
        onClick={onEdit}
      >
        {problem !== null && <Icon name="alert" />}
        <span class="k">{text.slice(0, colon)}</span>
        <bdi class="val">{text.slice(colon)}</bdi>
      </button>
      <button type="button" aria-label={`Remove ${text}`} onClick={onRemove}>
        <Icon name="x" />
      </button>
    </span>
  );
}

function Suggestions({
  items,
  active,
  at,
  onChoose,
}: {
  items: readonly Suggestion[];
  active: number;
  at: number;
  onChoose: (item: Suggestion) => void;
}): JSX.Element {
  return (
    // The field keeps the focus.
    <div class="pop complete" style={{ "--at": `${at}px` }} onMouseDown={(event) => event.preventDefault()}>
      <div class="menu">
        <div role="listbox" id="filter-suggestions" aria-label="Suggestions">
          {items.map((item, index) => (
            <div
              key={item.text}
              id={`suggestion-${index}`}
              class="item"
              role="option"
              aria-selected={index === active}
              onClick={() => onChoose(item)}
            >
              <Icon name={item.icon} class={item.isWhole ? `s-${item.icon}` : ""} />
              <code class="cut">
                <Marked text={item.text} part={item.typed} />
              </code>
              {item.sample !== undefined && <span class="sample">{item.sample}</span>}
              <span class="push">
                {item.count === undefined ? item.about : `${number(item.count)} ${item.count === 1 ? "job" : "jobs"}`}
              </span>
            </div>
          ))}
        </div>
        <div class="foot">
          <span>
            <kbd class="kbd">↹</kbd> complete
          </span>
          <span>
            <kbd class="kbd">↵</kbd> apply
          </span>
          <span>
            <kbd class="kbd">esc</kbd> close
          </span>
          <span class="push">
            <kbd class="kbd">-</kbd> excludes: <code>-type:test.*</code>
          </span>
        </div>
      </div>
    </div>
  );
}

function Marked({ text, part }: { text: string; part: string }): JSX.Element {
  const at = part === "" ? -1 : text.toLowerCase().lastIndexOf(part.toLowerCase());
  if (at < 0) return <>{text}</>;
  return (
    <>
      {text.slice(0, at)}
      <mark>{text.slice(at, at + part.length)}</mark>
      {text.slice(at + part.length)}
    </>
  );
}
