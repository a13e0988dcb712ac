import { UpdateItemCommand } from "@aws-sdk/client-dynamodb";
import { holdfast, HoldfastError, type InvalidOptionError } from "holdfast";
import { dynamodb } from "holdfast/dynamodb";
import type { ClaimedJob, Note, Store, StoredSchedule } from "holdfast/store";
import { expect, it, onTestFinished, vi } from "vitest";
import { LIMITS } from "#src/defaults.js";
import { addAll, claim, newJob, newJobs, recordOf } from "#src/testing/exercise-store/builders.js";
import {
  addSchedules,
  firedAll,
  firingFor,
  firingOf,
  jobSlot,
  scheduleOf,
} from "#src/testing/exercise-store/schedule-builders.js";
import { freePort } from "../free-port.js";
import { startProxy, type Proxy } from "./proxy.js";
import { openScene } from "./scene.js";
import { dynamoServer, REGION } from "./server.js";

const server = dynamoServer();

/** What a call is refused with, and after how long. */
async function refusal(work: () => Promise<unknown>): Promise<{ error: HoldfastError; tookMs: number }> {
  const from = performance.now();
  const error = await work().then(
    () => new Error("nothing was refused"),
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(HoldfastError);
  return { error: error as HoldfastError, tookMs: performance.now() - from };
}

function closing<Opened extends Store>(store: Opened): Opened {
  onTestFinished(() => store.close());
  return store;
}

const sum = (requests: Proxy["requests"]): number => [...requests.values()].reduce((total, each) => total + each, 0);

it("names a missing table after one request", async () => {
  const proxy = await startProxy(server.endpoint());
  const store = closing(dynamodb({ table: "nowhere", region: REGION, endpoint: proxy.endpoint }));
  for (const call of [() => store.insert([newJob()]), () => store.get(newJob().id), () => store.stats()]) {
    const before = sum(proxy.requests);
    const { error } = await refusal(call);
    expect(error).toMatchObject({ code: "STORE_UNREADABLE" });
    expect(error.message).toBe(
      `table nowhere in ${REGION} at ${proxy.endpoint} does not exist; check its name and region. holdfast() and store.migrate() create it`,
    );
    expect(sum(proxy.requests) - before).toBe(1);
  }
});

it.each([
  ["missing permissions", "AccessDeniedException", /^permission denied for table .+not authorized.+iamPolicy\(\)/],
  ["invalid credentials", "UnrecognizedClientException", /Check the access key, .+ and the region/],
] as const)("reports %s with a hint after one request", async (_what, name, message) => {
  const proxy = await startProxy(server.endpoint());
  proxy.refuse(name, 1, () => true);
  const store = dynamodb({ table: "jobs", region: REGION, endpoint: proxy.endpoint });
  const { error } = await refusal(() => holdfast({ store }));
  expect(error).toMatchObject({ code: "STORE_UNREADABLE", cause: { name } });
  expect(error.message).toMatch(message);
  expect(sum(proxy.requests)).toBe(1);
});

it("reports a missing table without permission to create it", async () => {
  const proxy = await startProxy(server.endpoint());
  proxy.refuse("AccessDeniedException", 1, ({ operation }) => operation === "CreateTable");
  const { error } = await refusal(() =>
    holdfast({ store: dynamodb({ table: "nowhere", region: REGION, endpoint: proxy.endpoint }) }),
  );
  expect(error).toMatchObject({ code: "STORE_UNREADABLE" });
  expect(error.message).toMatch(
    /^table nowhere in .+ does not exist, .+ no permission to create it; check its name and region, or create it/,
  );
});

it("reports expired credentials", async () => {
  const proxy = await startProxy(server.endpoint());
  proxy.refuse("ExpiredTokenException", 1, () => true);
  const { error } = await refusal(() =>
    holdfast({ store: dynamodb({ table: "jobs", region: REGION, endpoint: proxy.endpoint }) }),
  );
  expect(error.message).toMatch(/have expired: .+\. Renew them$/);
});

it.each([
  ["a URL without its scheme", () => dynamodb("jobs"), "store", /dynamodb:\/\/jobs\?region=/],
  ["the URL of another store", () => dynamodb("postgres://localhost/jobs"), "store", /is not a valid URL of a table/],
  ["an option twice", () => dynamodb("dynamodb://jobs?shards=4&shards=8"), "store", /shards is in the URL twice/],
  ["an invalid number", () => dynamodb("dynamodb://jobs?shards=abc"), "shards", /"abc"/],
  [
    "an endpoint without its scheme",
    () => dynamodb({ endpoint: "localhost:8000" }),
    "endpoint",
    /http:\/\/localhost:8000/,
  ],
  ["an invalid region", () => dynamodb({ region: "eu central" }), "region", /such as eu-central-1/],
  [
    "a region with a client",
    () => dynamodb({ client: { send: () => Promise.resolve() }, region: REGION }),
    "region",
    /cannot be combined with client/,
  ],
] as const)("rejects %s when the store is opened", (_what, open, field, message) => {
  expect(open).toThrow(
    expect.objectContaining({ code: "INVALID_OPTION", field, message: expect.stringMatching(message) }),
  );
});

it("reports missing write permissions on enqueue", async () => {
  const { proxy, store } = await openScene(server);
  proxy.refuse("AccessDeniedException");
  const { error } = await refusal(() => store.insert([newJob()]));
  expect(error.message).toMatch(/not authorized to perform: dynamodb:PutItem/);
});

it("reports an unreachable endpoint within seconds", async () => {
  const endpoint = `http://127.0.0.1:${await freePort()}`;
  const store = closing(dynamodb({ table: "jobs", region: REGION, endpoint }));
  const { error, tookMs } = await refusal(() => store.migrate());
  expect(error).toMatchObject({ code: "STORE_UNAVAILABLE" });
  expect(error.message).toContain(`table jobs in ${REGION} at ${endpoint} cannot be reached: connect ECONNREFUSED`);
  expect(error.message).toContain("Check its region and endpoint");
  expect(tookMs).toBeLessThan(10_000);
});

it("names the option region when none is set", async () => {
  for (const name of ["AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"]) vi.stubEnv(name, undefined);
  for (const name of ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"]) vi.stubEnv(name, "/nowhere");
  onTestFinished(() => void vi.unstubAllEnvs());
  const { error } = await refusal(() => closing(dynamodb("dynamodb://jobs")).migrate());
  expect(error).toMatchObject({ code: "INVALID_OPTION", field: "region" } satisfies Partial<InvalidOptionError>);
  expect(error.message).toContain("AWS_REGION");
});

it("reports missing credentials", async () => {
  for (const name of ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"]) vi.stubEnv(name, undefined);
  for (const name of ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"]) vi.stubEnv(name, "/nowhere");
  vi.stubEnv("AWS_EC2_METADATA_DISABLED", "true");
  onTestFinished(() => void vi.unstubAllEnvs());
  const store = closing(dynamodb({ table: "jobs", region: REGION, endpoint: server.endpoint() }));
  const { error, tookMs } = await refusal(() => store.migrate());
  expect(error).toMatchObject({ code: "STORE_UNREADABLE" });
  expect(error.message).toContain("Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
  expect(tookMs).toBeLessThan(10_000);
});

it("refuses only the jobs above 400 KB", async () => {
  const { store } = await openScene(server);
  const sized = (bytes: number): string => JSON.stringify("x".repeat(bytes - 2));
  const maxBytes = 400 * 1024;
  const jobs = [
    newJob(),
    newJob({ input: sized(maxBytes - 200) }),
    newJob({ input: sized(maxBytes) }),
    newJob({ tags: Array.from({ length: 450 }, (_, nth) => `${nth} ${"x".repeat(1_000)}`) }),
    newJob(),
  ];
  const results = await store.insert(jobs);
  expect(results.map((result) => (result === "busy" ? result : result.status))).toEqual([
    "inserted",
    "inserted",
    "refused",
    "refused",
    "inserted",
  ]);
  expect(results[2]).toMatchObject({
    reason: "not-stored",
    error: expect.stringMatching(/^the job has 4\d{5} bytes; a DynamoDB item holds 409600\. Store the input elsewhere/),
  });
  expect((await recordOf(store, jobs[1]?.id ?? "")).input).toHaveLength(maxBytes - 200);
  expect(await store.get(jobs[2]?.id ?? "")).toBeNull();
});

it("stores log lines in several items if needed", async () => {
  const { store } = await openScene(server, { shards: 1 });
  await addAll(store, newJobs(3));
  const [large, tooLarge, small] = await claim(store);
  const noteOf = (job: ClaimedJob | undefined, lines: string[]): Note => ({
    id: job?.id ?? "",
    fence: job?.fence ?? 0,
    progress: { fraction: 0.5, note: null, data: null },
    log: lines.map((line, at) => ({ at, line })),
  });
  // Six bytes each as JSON.
  const lines = Array.from({ length: LIMITS.logLines }, (_, nth) => `${nth} ${"\u0001".repeat(LIMITS.logLineLength)}`);
  await store.note([noteOf(large, lines), noteOf(tooLarge, ["x".repeat(500_000)]), noteOf(small, ["once"])]);
  const logOf = async (job: ClaimedJob | undefined): Promise<string[]> =>
    (await recordOf(store, job?.id ?? "")).log.map(({ line }) => line);
  expect(await logOf(large)).toEqual(lines);
  expect(await logOf(small)).toEqual(["once"]);
  // Longer than the engine allows.
  const [cut] = await logOf(tooLarge);
  expect(cut).toMatch(/^x+…$/);
  await store.note([noteOf(large, ["the last"])]);
  expect(await logOf(large)).toEqual([...lines.slice(1), "the last"]);
});

it("refuses jobs of new types when the config item is full", async () => {
  const { store, table } = await openScene(server, { shards: 1 });
  await addAll(store, [newJob({ type: "known" }), newJob({ type: "other" })]);
  const client = server.client();
  onTestFinished(() => client.destroy());
  // Simulates thousands of names: a dozen more fit.
  await client.send(
    new UpdateItemCommand({
      TableName: table,
      Key: { pk: { S: "config" }, sk: { S: "config" } },
      UpdateExpression: "SET thousands = :names",
      ExpressionAttributeValues: { ":names": { S: "x".repeat(406_000) } },
    }),
  );
  const types = Array.from({ length: LIMITS.firedSlots }, (_, nth) => String(nth).padStart(200, "t"));
  const results = await store.insert(["known", ...types, "other"].map((type) => newJob({ type })));
  expect(results.map((result) => (result === "busy" ? result : result.status))).toEqual([
    "inserted",
    ...types.map(() => "refused"),
    "inserted",
  ]);
  expect(results[1]).toMatchObject({
    reason: "not-stored",
    error: expect.stringMatching(/types, queues and priorities.+ 409600 bytes.+ use fewer, .+ by user or tags/),
  });
  expect(await claim(store)).toHaveLength(2 + 2);

  const [fired, missed] = (await addSchedules(store, ["fired", "missed"], { nextRunAt: 1_000 })) as [
    StoredSchedule,
    StoredSchedule,
  ];
  const firing = firingFor(fired, [1_000], { type: "known" });
  const slots = types.map((type, nth) => jobSlot("missed", 1_000 + nth, { type }));
  const [good, bad] = await store.fire([firing, firingOf(missed, { lastSlot: 2_000, nextRunAt: 3_000, slots })]);
  expect(good).toEqual(firedAll(firing));
  expect(bad).toEqual({ status: "fired", slots: types.map(() => ({ job: null, heldBy: null })) });
  const [kept] = (await scheduleOf(store, "missed")).slots;
  expect(kept).toMatchObject({ job: null, reason: expect.stringMatching(/^refused: .+ use fewer/) });
});
