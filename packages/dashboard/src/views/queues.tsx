import type { JSX } from "preact";
import { Skeleton } from "../ui/page-states.js";

export default function Queues(): JSX.Element {
  return <Skeleton />;
}
