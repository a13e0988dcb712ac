import type { ErrorGroupResult } from "holdfast/admin";
import type { JSX } from "preact";
import { messageParts } from "./placeholders.js";

const SHOWN = 300;

/** The class of the error and its message; what differs from failure to failure is marked. */
export function Message({ group: { name, message } }: { group: ErrorGroupResult }): JSX.Element {
  return (
    <bdi>
      {name !== null && <b>{name}</b>}
      {name !== null && " "}
      {messageParts(message.slice(0, SHOWN)).map(({ text, isPlaceholder }, at) =>
        isPlaceholder ? <i key={at}>{text}</i> : text,
      )}
      {message.length > SHOWN && "…"}
    </bdi>
  );
}
