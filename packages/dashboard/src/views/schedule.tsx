import type { JSX } from "preact";
import { Skeleton } from "../ui/page-states.js";

export default function Schedule(): JSX.Element {
  return <Skeleton />;
}
