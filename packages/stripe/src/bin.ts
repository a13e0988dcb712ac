#!/usr/bin/env node
import { createRequire } from "node:module";
import { runPackProgram } from "holdfast/pack/command";
import { replay } from "./command.js";

const { version } = createRequire(import.meta.url)("../package.json") as { version: string };

await runPackProgram({
  name: "holdfast-stripe",
  summary: "Stripe events of a Holdfast application.",
  version,
  commands: [replay],
});
