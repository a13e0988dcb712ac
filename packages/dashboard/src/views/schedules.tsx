import type { JSX } from "preact";
import { Skeleton } from "../ui/page-states.js";

export default function Schedules(): JSX.Element {
  return <Skeleton />;
}
