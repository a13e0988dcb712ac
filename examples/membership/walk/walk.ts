import { adminClient } from "holdfast/admin";
import type { Site } from "../site/site.js";
import type { Vendors } from "../vendors/start.js";
import { Browser } from "./browser.js";
import { createPerson, StoryError, type Scene } from "./scene.js";
import { STORIES } from "./stories/index.js";

/** What the walk starts with. */
export interface WalkParts {
  readonly site: Site;
  readonly vendors: Vendors;
  readonly staffLink: string;
  /** Ends the walk after the current story. */
  readonly signal: AbortSignal;
}

/** Walks through the user stories, and prints each with its proof. Ends at the first one that fails. */
export async function walk({ signal, ...parts }: WalkParts): Promise<"done" | "failed" | "stopped"> {
  const start = performance.now();
  const scene = await openScene(parts);
  for (const { title, run } of STORIES) {
    if (signal.aborted) return "stopped";
    try {
      const lines = await run(scene);
      console.log([`✓ ${title}`, ...lines.map((line) => `    ${line}`)].join("\n"));
    } catch (error) {
      if (!(error instanceof StoryError)) console.error(error);
      console.log(`✗ ${title}\n    ${(error as Error).message}`);
      return "failed";
    }
  }
  const { count } = await scene.api.jobs.count({ state: ["completed"] });
  console.log(
    `\n${STORIES.length} stories in ${((performance.now() - start) / 1_000).toFixed(1)} s. ${count} jobs are completed.`,
  );
  return "done";
}

async function openScene({ site, vendors, staffLink }: Omit<WalkParts, "signal">): Promise<Scene> {
  const { token } = await site.hf.tokens.create({ name: "walk", role: "admin", expiresIn: "1h" });
  const secrets = new Set([token]);
  const editor = new Browser(site.url);
  const person = (name: string): Scene["ada"] => createPerson(site.url, name, secrets);
  return {
    site,
    vendors,
    staffLink,
    api: adminClient({ url: site.url, token }),
    ada: person("Ada"),
    editor,
    secrets,
    person,
  };
}
