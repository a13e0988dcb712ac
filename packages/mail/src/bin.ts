#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { runPackProgram } from "holdfast/pack/command";
import { newsletterCommands } from "./newsletter/command.js";

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  version: string;
};

await runPackProgram({
  name: "holdfast-mail",
  summary: "Newsletters of @holdfast/mail.",
  version,
  commands: [newsletterCommands],
});
