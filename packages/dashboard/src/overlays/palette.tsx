import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { jobHref } from "../app/links.js";
import { useResource } from "../app/resource.js";
import { go } from "../app/router.js";
import { isCut } from "../app/schedules.js";
import { Icon } from "../ui/icon.js";
import { findEntries, jobIdIn, marked, type Entry } from "./palette/entries.js";
import { allEntries, loadSources } from "./palette/sources.js";

const NONE = { schedules: [], types: [] };

/** Finds views, jobs, schedules, queues, types and actions by a few letters. */
export default function Palette({ onClose }: { onClose: () => void }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const search = isCut.value ? (text.trim().split(/\s+/).at(-1) ?? "") : "";
  const loaded = useResource(`palette ${search}`, () => loadSources(search));
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      dialog.current?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const id = jobIdIn(text);
  const entries: Entry[] =
    id === null
      ? findEntries(allEntries(loaded.data.value ?? NONE), text)
      : [{ group: "Go to", icon: "jobs", text: `Job ${id}`, about: "Open", href: jobHref(id) }];
  const current = entries.length === 0 ? -1 : Math.min(at, entries.length - 1);
  useEffect(() => {
    document.getElementById(`palette-${current}`)?.scrollIntoView({ block: "nearest" });
  }, [current]);
  const open = (entry: Entry | undefined, isNewTab: boolean): void => {
    if (entry === undefined) return;
    if (isNewTab && entry.href !== undefined) return void window.open(entry.href, "_blank", "noopener");
    onClose();
    if (entry.href !== undefined) go(entry.href);
    else void entry.run?.();
  };
  const onKey = (event: KeyboardEvent): void => {
    const moves: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      Home: -current,
      End: entries.length - 1 - current,
    };
    const move = moves[event.key];
    // Home and End move in the text, unless a modifier is held.
    const isMove = move !== undefined && (event.key.startsWith("Arrow") || event.ctrlKey || event.metaKey);
    if (isMove && entries.length > 0) setAt((current + move + entries.length) % entries.length);
    else if (event.key === "Enter" && !event.isComposing) open(entries[current], event.metaKey || event.ctrlKey);
    else return;
    event.preventDefault();
  };
  return (
    <dialog
      ref={dialog}
      class="dialog palette"
      aria-label="Search or jump to"
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      <div class="q">
        <Icon name="search" />
        <input
          role="combobox"
          aria-expanded={entries.length > 0}
          aria-controls="palette-list"
          aria-autocomplete="list"
          aria-activedescendant={current >= 0 ? `palette-${current}` : undefined}
          aria-label="Search or jump to"
          placeholder="Search, paste a job id, or > for actions"
          autocomplete="off"
          spellcheck={false}
          autofocus
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={onKey}
        />
      </div>
      <div class="menu">
        <div id="palette-list" class="found" role="listbox" aria-label="Results">
          {entries.map((entry, index) => (
            <Option
              key={`${entry.group} ${entry.text}`}
              entry={entry}
              text={text}
              index={index}
              isFirst={entry.group !== entries[index - 1]?.group}
              isCurrent={index === current}
              onOpen={(isNewTab) => open(entry, isNewTab)}
              onPoint={() => setAt(index)}
            />
          ))}
        </div>
        {entries.length === 0 && (
          <p class="t3 none" role="status">
            Nothing found. Filter jobs in Jobs to search their inputs.
          </p>
        )}
        <div class="foot" aria-hidden="true">
          <span>
            <kbd class="kbd">↑</kbd>
            <kbd class="kbd">↓</kbd> move
          </span>
          <span>
            <kbd class="kbd">↵</kbd> open
          </span>
          <span>
            <kbd class="kbd">&gt;</kbd> actions
          </span>
          <span class="push">Paste a job id to open it</span>
        </div>
      </div>
    </dialog>
  );
}

interface OptionProps {
  entry: Entry;
  text: string;
  index: number;
  isFirst: boolean;
  isCurrent: boolean;
  onOpen: (isNewTab: boolean) => void;
  onPoint: () => void;
}

function Option({ entry, text, index, isFirst, isCurrent, onOpen, onPoint }: OptionProps): JSX.Element {
  return (
    <>
      {isFirst && (
        <div class="head" role="presentation">
          {entry.group}
        </div>
      )}
      <div
        id={`palette-${index}`}
        class="item"
        role="option"
        aria-selected={isCurrent}
        onPointerMove={onPoint}
        onClick={(event) => onOpen(event.metaKey || event.ctrlKey)}
      >
        <Icon name={entry.icon} />
        <span class="cut" dir="auto" title={entry.text}>
          {marked(entry.text, text).map(({ part, isTyped }, at) => (isTyped ? <b key={at}>{part}</b> : part))}
        </span>
        <span class="push">{entry.about}</span>
      </div>
    </>
  );
}
