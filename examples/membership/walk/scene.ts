import { setTimeout as sleep } from "node:timers/promises";
import type { AdminClient } from "holdfast/admin";
import type { Site } from "../site/site.js";
import type { Vendors } from "../vendors/start.js";
import { Browser } from "./browser.js";

/** What the stories use. They act over HTTP; the site itself is only read, to prove what is stored. */
export interface Scene {
  readonly site: Site;
  readonly vendors: Vendors;
  /** The admin API, with a token. */
  readonly api: AdminClient;
  /** A link that signs the editor in. */
  readonly staffLink: string;
  readonly ada: Person;
  /** The editor, who signs in before the first newsletter. */
  readonly editor: Browser;
  /** Passwords, tokens and cookies that were used: none of them may be in a job. */
  readonly secrets: Set<string>;
  /** A new visitor. */
  readonly person: (name: string) => Person;
}

/** A visitor with what they type into forms. */
export interface Person {
  readonly name: string;
  readonly email: string;
  password: string;
  readonly browser: Browser;
}

/** A user story of the document: what happens, and the proof in one or two lines. */
export interface Story {
  readonly title: string;
  readonly run: (scene: Scene) => Promise<string[]>;
}

/** A story that did not go as it should. The message is a sentence for the reader. */
export class StoryError extends Error {}

export function check(isRight: boolean, sentence: string): asserts isRight {
  if (!isRight) throw new StoryError(sentence);
}

const DEADLINE_MS = 10_000;

/** Reads until there is something, and returns it. */
export async function until<Value>(
  read: () => Value | null | false | undefined | Promise<Value | null | false | undefined>,
  sentence: string,
): Promise<Value> {
  for (const deadline = performance.now() + DEADLINE_MS; ;) {
    const value = await read();
    if (value !== null && value !== false && value !== undefined) return value;
    check(performance.now() < deadline, `${sentence} (waited for ${DEADLINE_MS / 1_000} s)`);
    await sleep(15);
  }
}

const UNFINISHED = ["pending", "claimed", "running", "failed"] as const;

/** Waits until no job waits or runs. */
export async function settled({ api }: Scene): Promise<void> {
  const isSettled = async (): Promise<boolean> => (await api.jobs.count({ state: UNFINISHED })).count === 0;
  await until(isSettled, "Jobs are left that do not end.");
}

export function ms(duration: number): string {
  return `${Math.max(1, Math.round(duration))} ms`;
}

export function createPerson(site: string, name: string, secrets: Set<string>): Person {
  const password = `${name}-${crypto.randomUUID()}`;
  secrets.add(password);
  return { name, email: `${name.toLowerCase()}@example.com`, password, browser: new Browser(site) };
}

/** Signs a visitor up, and waits for nothing else. */
export async function signUp({ name, email, password, browser }: Person): Promise<number> {
  const page = await browser.send("/sign-up", { name, email, password, newsletter: "on" });
  check(page.status === 200 && page.url.endsWith("/account"), `${name} could not sign up.`);
  return page.ms;
}
