import type { ComponentChildren, JSX } from "preact";
import { messageOf } from "../app/api.js";
import type { Resource } from "../app/resource.js";
import { Button } from "./button.js";
import { Icon, type IconName } from "./icon.js";

/** Grey bars where rows will be. */
export function Skeleton({ rows = 8 }: { rows?: number }): JSX.Element {
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, at) => (
        <span key={at} class="skel" />
      ))}
    </div>
  );
}

export function Empty({
  icon = "info",
  title,
  children,
}: {
  icon?: IconName;
  title: string;
  children?: ComponentChildren;
}): JSX.Element {
  return (
    <div class="empty">
      <Icon name={icon} />
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** What a view shows instead of data: that it loads, or why it could not. */
export function Pending<T>({ of, rows }: { of: Resource<T>; rows?: number }): JSX.Element | null {
  if (of.data.value !== undefined) return null;
  const { value: error } = of.error;
  if (error === undefined) return <Skeleton {...(rows !== undefined && { rows })} />;
  return (
    <Empty icon="alert" title={messageOf(error)}>
      <Button icon="retry" onClick={() => of.reload()}>
        Try again
      </Button>
    </Empty>
  );
}
