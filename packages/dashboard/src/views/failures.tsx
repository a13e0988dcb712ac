import type { JSX } from "preact";
import { Skeleton } from "../ui/page-states.js";

export default function Failures(): JSX.Element {
  return <Skeleton />;
}
