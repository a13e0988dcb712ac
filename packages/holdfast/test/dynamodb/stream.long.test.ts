import { expect, it } from "vitest";
import { add, MINUTE } from "#src/testing/exercise-store/builders.js";
import { FollowedPages, switchStream } from "./followed.js";
import { openScene } from "./scene.js";
import { dynamoServer } from "./server.js";

/** On the real clock: both ways of following overlap for 15 seconds. */
const server = dynamoServer();

it("switching the stream on while processes write loses nothing", { timeout: 90_000 }, async () => {
  const { direct, table } = await openScene(server);
  const [watcher, ...writers] = [direct(), direct(), direct()];
  const reader = new FollowedPages(watcher, await watcher.recordTransitions(MINUTE));
  const ids: string[] = [];
  let isDone = false;
  const writing = writers.map(async (store) => {
    while (!isDone) ids.push(await add(store));
  });
  await reader.until("the first transitions", () => reader.seen.length > 20);
  const client = server.client();
  await switchStream(client, table, true);
  client.destroy();
  expect(await watcher.recordTransitions(MINUTE)).toMatch(/^s1\./);
  await reader.until("the stream", () => reader.cursor.startsWith("s1."));
  const before = reader.seen.length;
  await reader.until("transitions of the stream", () => reader.seen.length > before);
  isDone = true;
  await Promise.all(writing);
  const found = (): Set<string> => new Set(reader.seen.map(({ id }) => id));
  await reader.until("all of them", () => found().size >= ids.length);
  expect([...found()].toSorted()).toEqual(ids.toSorted());
});
