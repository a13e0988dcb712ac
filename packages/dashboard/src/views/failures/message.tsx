import type { ErrorGroupResult } from "holdfast/admin";
import type { JSX } from "preact";
import { messageParts } from "./placeholders.js";

/** The class of the error and its message; as one failure has it; what differs from failure to failure is marked. */
export function Message({ group: { name, message, example } }: { group: ErrorGroupResult }): JSX.Element {
  return (
    <bdi>
      {name !== null && <b>{name}</b>}
      {name !== null && " "}
      {messageParts(message, example).map(({ text, varies }, at) => (varies ? <i key={at}>{text}</i> : text))}
    </bdi>
  );
}
