import { job, type Holdfast } from "holdfast";
import { expect, it } from "vitest";
import { z } from "zod";
import { engineOf } from "../../holdfast/dist/engine/client/holdfast.js";
import { inRange, orderOf, readFilter } from "../src/views/failures/filter.js";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

let isBroken = true;
const sync = job({
  type: "gmail.sync",
  input: z.any(),
  queue: "sync",
  retry: { maxAttempts: 1 },
  run() {
    if (isBroken) throw new Error("503 backendError <img src=x onerror=alert(1)>");
  },
});
const render = job({
  type: "invoice.render",
  input: z.any(),
  retry: { maxAttempts: 3, backoff: { base: 600_000, max: 600_000 } },
  run() {
    throw new TypeError("no template");
  },
});

async function failed(hf: Holdfast): Promise<void> {
  isBroken = true;
  for (let nth = 0; nth < 12; nth++) await hf.enqueue(sync, {}, { user: `u-${nth}` });
  for (let nth = 0; nth < 2; nth++) await hf.enqueue(render, {});
  for (let nth = 0; nth < 14; nth++) await hf.runNext();
}

inBrowser("Failures", () => {
  it("say that no attempt has failed", async () => {
    const { page, open } = await openDashboard({ jobs: [sync] });
    await open("/failures");
    await page.getByRole("heading", { name: "No attempt has failed" }).waitFor();
  });

  it("group failed attempts by error", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [sync, render], role: "viewer" });
    await failed(hf);
    const group = (await hf.errorGroups({ type: "gmail.sync" }))[0]?.fingerprint ?? "";
    const at = Math.floor(Date.now() / 60_000) * 60_000;
    // As the process itself writes it after the end of the minute.
    const data = JSON.stringify({ counts: [], errors: { [group]: 12 } });
    await engineOf(hf).store.putHistory([{ resolution: "minute", at, writer: "w", data }]);
    await open("/failures");
    const [first, second] = [
      page.getByRole("listitem").filter({ hasText: "gmail.sync" }),
      page.getByRole("listitem").filter({ hasText: "invoice.render" }),
    ];
    await first.getByText("12", { exact: true }).first().waitFor();
    await first.getByText("dead", { exact: true }).waitFor();
    expect(await first.locator(".f-trend rect").count()).toBe(1);
    await second.getByText("retrying").waitFor();
    expect(await first.textContent()).toContain("503 backendError <img src=x onerror=alert(1)>");
    expect(await page.getByRole("button", { name: /Retry/ }).count()).toBe(0);
    await page.getByLabel("Job type").selectOption("invoice.render");
    await first.waitFor({ state: "detached" });
    expect(new URL(page.url()).searchParams.get("type")).toBe("invoice.render");
    await page.reload();
    await second.waitFor();
  });

  it("retry some jobs first, then the rest", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [sync, render], role: "operator" });
    await failed(hf);
    await open("/failures");
    await page.getByRole("button", { name: /^Error .*backendError/ }).click();
    expect(new URL(page.url()).searchParams.get("open")).toMatch(/^[0-9a-f]{16}$/);
    await page.getByText("u-11").waitFor();
    expect(await page.getByRole("button", { name: "Delete…" }).count()).toBe(0);
    isBroken = false;
    await page.getByRole("button", { name: "Retry some first…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Retry 10 jobs" }).waitFor();
    await dialog.getByLabel("How many first").fill("3");
    await dialog.getByRole("button", { name: "Retry 3 jobs" }).click();
    await dialog.getByText("3 jobs retried. See how they do, then go on.").waitFor();
    expect((await hf.stats()).types["gmail.sync"]).toMatchObject({ pending: 3, dead: 9 });
    await dialog.getByRole("button", { name: "Back" }).click();
    // Of so few, there is no trial.
    await page.getByRole("button", { name: "Retry some first…" }).waitFor({ state: "detached" });
    await page.locator(".f-panel").getByRole("button", { name: "Retry…" }).click();
    await dialog.getByRole("button", { name: "Retry 9 jobs" }).click();
    await page.getByText("9 jobs retried.", { exact: true }).first().waitFor();
    expect((await hf.stats()).types["gmail.sync"]).toMatchObject({ pending: 12, dead: 0 });
  });

  it("open the dialog that the Overview asks for", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [sync] });
    await failed(hf).catch(() => {});
    const [group] = await hf.errorGroups({ type: "gmail.sync" });
    await open(`/failures?open=${group?.fingerprint}&do=retry`);
    await page.getByRole("dialog").getByRole("button", { name: "Retry 12 jobs" }).waitFor();
    expect(new URL(page.url()).searchParams.get("do")).toBeNull();
  });
});

it("reads its filter from the URL", () => {
  expect(readFilter(new URLSearchParams("range=constructor&order=x&open="))).toEqual({
    type: null,
    range: "30d",
    order: "last",
    open: null,
    wants: null,
  });
});

it("orders groups by time or by attempts", () => {
  const group = {
    type: "t",
    name: null,
    code: null,
    message: "m",
    frame: null,
    firstAt: "",
    job: "",
    example: "",
    trend: null,
  };
  const groups = [
    { ...group, fingerprint: "old", count: 9, lastAt: "2026-11-15T00:00:00Z" },
    { ...group, fingerprint: "new", count: 1, lastAt: "2026-11-16T00:00:00Z" },
  ];
  expect(orderOf(groups, "last").map(({ fingerprint }) => fingerprint)).toEqual(["new", "old"]);
  expect(orderOf(groups, "attempts").map(({ fingerprint }) => fingerprint)).toEqual(["old", "new"]);
  const now = Date.parse("2026-11-16T00:30:00Z");
  expect(inRange(groups, "1h", now).map(({ fingerprint }) => fingerprint)).toEqual(["new"]);
});
