import type { TestProject } from "vitest/node";
import { shareServer } from "../../holdfast/test/shared-server.js";
import { startBrowser } from "./browser.js";

/** One browser for a whole run, started when a test file first asks for it. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const browser = await shareServer(startBrowser, ({ endpoint }) => endpoint);
  project.provide("sharedBrowser", browser.url);
  return () => browser.stop();
}
