import { job } from "holdfast";
import { admin } from "holdfast/admin";
import { describe, expect, it } from "vitest";
import { adminScene, adminStores } from "./scene.js";

const STORES = adminStores();

const declined = job({
  type: "charge",
  retry: { maxAttempts: 1 },
  run() {
    const cause = Object.assign(new Error("refused by the bank"), { card: "4242", reason: "limit" });
    throw Object.assign(new Error("declined", { cause }), { code: 402, card: "4242", request: "r-1" });
  },
});

describe.each(STORES)("attempt errors on %s", (_name, store) => {
  it("include cause and data, redacted", async () => {
    const { hf, as } = await adminScene(store(), {}, { jobs: [declined], redact: ["**.card"] });
    const { id } = await hf.enqueue(declined);
    await hf.drain();
    const { attempts, error } = await (await as("viewer")).jobs.get({ id });
    expect(error).toMatchObject({ message: "declined", code: "402" });
    expect(attempts[0]?.error).toMatchObject({
      message: "declined",
      code: "402",
      data: { card: "[redacted]", request: "r-1" },
      cause: { message: "refused by the bank", cause: null, data: { card: "[redacted]", reason: "limit" } },
    });
  });

  it("show only message and code to users", async () => {
    const { hf, as } = await adminScene(store(), {}, { jobs: [declined] });
    const { id } = await hf.enqueue(declined, undefined, { user: "ada" });
    await hf.drain();
    const { attempts } = await (await as("user", "ada")).jobs.get({ id });
    expect(attempts[0]?.error).toEqual({ message: "declined", code: "402", stack: null, cause: null, data: null });
  });
});

describe("error data stored without redaction", () => {
  it("is redacted when it is shown", async () => {
    const [, [, store] = ["", () => ""]] = STORES;
    const address = store();
    const { hf } = await adminScene(address, {}, { jobs: [declined] });
    const { id } = await hf.enqueue(declined);
    await hf.drain();
    const { as } = await adminScene(address, {}, { redact: ["error.data.card"] });
    const { attempts } = await (await as("viewer")).jobs.get({ id });
    expect(JSON.stringify(attempts)).not.toContain("4242");
    expect(attempts[0]?.error?.cause?.data).toEqual({ card: "[redacted]", reason: "limit" });
  });
});

describe("option functions", () => {
  it.each<[string, () => unknown]>([
    [
      "throws",
      () => {
        throw new Error("in onError");
      },
    ],
    ["rejects", () => Promise.reject(new Error("in onError"))],
  ])("still returns 500 if onError %s", async (_, onError) => {
    const lines: string[] = [];
    const log = (_fields: object, message: string): void => void lines.push(message);
    const { hf } = await adminScene("sqlite::memory:", {}, { logger: { info: log, warn: log, error: log } });
    const rejections: unknown[] = [];
    const onRejection = (reason: unknown): void => void rejections.push(reason);
    process.on("unhandledRejection", onRejection);
    const auth = (): never => {
      throw new Error("in auth");
    };
    const { status } = await admin(hf, { auth, onError }).fetch(new Request("http://localhost/api/admin/jobs"));
    await new Promise((resolve) => setImmediate(resolve));
    process.off("unhandledRejection", onRejection);
    expect([status, rejections]).toEqual([500, []]);
    expect(lines).toEqual(["the admin API failed", "the admin API failed"]);
  });

  it("rejects an asynchronous clientAddress", async () => {
    const errors: unknown[] = [];
    const clientAddress = (() => Promise.reject(new Error("later"))) as unknown as () => string;
    const { send, token } = await adminScene("sqlite::memory:", {
      clientAddress,
      onError: (error) => errors.push(error),
    });
    const { status } = await send("/api/admin/jobs", { token: await token("viewer") });
    expect([status, String(errors[0])]).toEqual([
      500,
      expect.stringContaining("clientAddress function returned a promise"),
    ]);
  });
});
