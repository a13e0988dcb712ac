import { holdfast } from "holdfast";
import { admin, adminClient, AdminError } from "holdfast/admin";
import { expect, it, onTestFinished } from "vitest";
import { STATE_NAMES } from "#src/job/state.js";

it("names the invalid field, what it must be, and its value", async () => {
  const hf = await holdfast({ store: "sqlite::memory:", logger: false });
  const api = admin(hf, { auth: () => ({ name: "me", role: "admin", user: null }) });
  onTestFinished(async () => {
    await api.close();
    await hf.close();
  });
  const client = adminClient({ fetch: (request) => api.fetch(request) });
  const list = (input: object) => () => client.jobs.list(input);
  const enqueue = (input: object) => () => client.jobs.enqueue(input as never);
  const schedule = (input: object) => () => client.schedules.create({ name: "s", type: "t", ...input } as never);

  for (const [call, message] of [
    [list({ limit: 201 }), "limit must be at most 200, got 201"],
    [list({ limit: 0 }), "limit must be at least 1, got 0"],
    [list({ limit: "ten" }), 'limit must be a number, got "ten"'],
    [list({ limit: 1.5 }), "limit must be an integer, got 1.5"],
    [
      list({ state: ["done"] }),
      `state.0 must be ${STATE_NAMES.slice(0, -1).join(", ")} or ${STATE_NAMES.at(-1)}, got "done"`,
    ],
    [list({ user: "" }), "user must not be empty"],
    [list({ createdAfter: "today" }), 'createdAfter must be a time like 2026-11-15T12:00:00Z, got "today"'],
    [enqueue({ type: "t", runAt: "2027-01-01" }), 'runAt must be a time like 2026-11-15T12:00:00Z, got "2027-01-01"'],
    [
      enqueue({ type: "t", expiresAt: "2027-02-30T00:00:00Z" }),
      'expiresAt must be a time like 2026-11-15T12:00:00Z, got "2027-02-30T00:00:00Z"',
    ],
    [
      schedule({ every: "1h", endAt: "2027-02-30T00:00:00Z" }),
      'endAt must be a time like 2026-11-15T12:00:00Z, got "2027-02-30T00:00:00Z"',
    ],
    [list({ querty: "mail" }), "querty: unknown field"],
    [list({ stat: "dead" }), "stat: unknown field; did you mean state?"],
    [enqueue({}), "type is required"],
    [enqueue({ type: 7 }), "type must be a string, got 7"],
    [enqueue({ type: "t".repeat(300) }), "type must have at most 200 characters, got 300"],
    [enqueue({ type: "t", tags: "a" }), 'tags must be an array, got "a"'],
    [enqueue({ type: "t", unique: { scope: "forever" } }), "unique: key is required"],
    [
      () => client.jobs.cancelMany({ filter: { types: ["a"] } as never }),
      "filter.types: unknown field; did you mean type?",
    ],
    [schedule({ catchUp: "all" }), 'catchUp must be skip or latest or an object, got "all"'],
    [schedule({ enabled: "yes" }), 'enabled must be true or false, got "yes"'],
  ] as const) {
    const error = await call().then(
      () => null,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(AdminError);
    expect(error).toMatchObject({ status: 400, code: "INVALID_REQUEST", message });
  }
});
