import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

// Also read by the script that makes screenshots.
const PLACES = JSON.parse(readFileSync(join(import.meta.dirname, "../sample/chromium-paths.json"), "utf8")) as string[];

/** The Chromium of this machine, or the one that HOLDFAST_CHROMIUM names; null: none was found. */
export function chromiumPath(): string | null {
  const named = process.env["HOLDFAST_CHROMIUM"];
  if (named !== undefined && named !== "") return named;
  return PLACES.find((path) => existsSync(path)) ?? null;
}

/** A running browser that test files connect to. */
export interface StartedBrowser {
  endpoint: string;
  stop: () => Promise<void>;
}

export async function startBrowser(): Promise<StartedBrowser> {
  const executablePath = chromiumPath();
  if (executablePath === null) throw new Error("Chromium was not found");
  const server = await chromium.launchServer({
    executablePath,
    host: "127.0.0.1",
    args: [
      // Chromium refuses to run its sandbox as root.
      ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
      "--disable-gpu",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--no-first-run",
    ],
  });
  return { endpoint: server.wsEndpoint(), stop: () => server.close() };
}
