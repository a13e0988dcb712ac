import type { StepWrite } from "../../../store.js";
import { stringList, stringsOf, type Attribute, type Item } from "../connection/attributes.js";
import type { Change } from "../connection/expressions.js";

/** A step that waits. `listed` identifies its job, and not a later one with the same id. */
export interface Awaiter {
  listed: string;
  name: string;
  member: number;
  wake: StepWrite["wake"];
}

/**
 * The steps that wait for the end of a job. They are in the job's own item: who ends the job has read it or gets it with the write, so
 * that jobs for which none waits cost no request.
 */
export function awaitersOf(item: Item): Awaiter[] {
  return stringsOf(item, "awaited").map((text) => {
    const [listed, name, member, wake] = JSON.parse(text) as [string, string, number, Awaiter["wake"]];
    return { listed, name, member, wake };
  });
}

export function awaiterList({ listed, name, member, wake }: Awaiter): Attribute {
  return stringList([JSON.stringify([listed, name, member, wake])]);
}

export function isAwaited(item: Item): boolean {
  return item["awaited"] !== undefined;
}

export function isAwaitedBy(item: Item, { listed, name, member }: Awaiter): boolean {
  return awaitersOf(item).some((each) => each.listed === listed && each.name === name && each.member === member);
}

/** A condition: no other step has begun to wait for the job since it was read. Otherwise its wait would not end. */
export function ifSameAwaiters(change: Change, item: Item): Change {
  const awaited = item["awaited"];
  return change.when(awaited === undefined ? "attribute_not_exists(#awaited)" : `#awaited = ${change.value(awaited)}`);
}

/** Adds a step that waits for the job. */
export function addAwaiter(change: Change, awaiter: Awaiter): Change {
  const none = change.value({ L: [] });
  return change.setTo(
    "awaited",
    `list_append(if_not_exists(#awaited, ${none}), ${change.value(awaiterList(awaiter))})`,
  );
}
