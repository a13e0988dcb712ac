import type { JSX } from "preact";
import { Skeleton } from "../ui/page-states.js";

export default function Tokens(): JSX.Element {
  return <Skeleton />;
}
