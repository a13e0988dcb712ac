import { job } from "holdfast";
import type { Locator, Page } from "playwright-core";
import { expect, it } from "vitest";
import { z } from "zod";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

const receiptInput = z.object({ to: z.email(), cents: z.int().min(1).optional() });
/** It offers no JSON Schema, so the input is typed as JSON. */
const plainSchema = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value: unknown) => receiptInput["~standard"].validate(value),
  },
} as const;

const receipt = job({
  type: "email.receipt",
  queue: "mail",
  input: plainSchema,
  run: () => "sent",
});

const order = job({
  type: "shop.order",
  queue: "shop",
  priority: 3,
  tags: ["eu"],
  timeout: "5m",
  retry: { maxAttempts: 7 },
  input: z.object({
    to: z.email(),
    cents: z.int().min(1),
    currency: z.enum(["EUR", "USD"]),
    address: z.object({ zip: z.string() }),
  }),
  run: () => {},
});
const welcome = job({
  type: "email.welcome",
  input: z.object({ name: z.string(), urgent: z.boolean() }),
  run: () => {},
});

async function openDialog(page: Page, open: (path: string) => Promise<void>): Promise<Locator> {
  await open("/jobs");
  await page.getByRole("button", { name: "Enqueue" }).click();
  const dialog = page.getByRole("dialog", { name: "Enqueue a job" });
  await dialog.getByLabel("Type", { exact: true }).fill("email.receipt");
  return dialog;
}

inBrowser("the dialog that enqueues a job", () => {
  it("enqueues with options, and links to the job", async () => {
    const { page, hf, open } = await openDashboard({ jobs: [receipt] });
    const dialog = await openDialog(page, open);
    await dialog.getByText("No worker is live").waitFor();
    await dialog.getByRole("textbox", { name: "Input" }).fill('{"to":"a@b.co"}');
    await dialog.getByText("Options").click();
    await dialog.getByLabel("Runs").selectOption("after");
    await dialog.getByLabel("Delay").fill("2h");
    await dialog.getByLabel("Priority").fill("5");
    await dialog.getByLabel("User").fill("u-1");
    await dialog.getByLabel("Tags").fill("eu, shop");
    await dialog.getByLabel("Unique key").fill("receipt:1");
    await page.keyboard.press("Control+Enter");
    await page.locator(".toast").getByRole("button", { name: "Show the job" }).click();
    await page.getByRole("heading", { name: "email.receipt" }).waitFor();
    const [stored] = (await hf.list({ user: "u-1" })).jobs;
    expect(stored).toMatchObject({ queue: "mail", priority: 5, tags: ["eu", "shop"], key: "receipt:1" });
    expect(page.url()).toContain(stored?.id);
  });

  it("shows a form and the defaults of a known type", async () => {
    const { page, hf, open } = await openDashboard({ jobs: [order], expected: /400/ });
    await open("/jobs");
    await page.getByRole("button", { name: "Enqueue" }).click();
    const dialog = page.getByRole("dialog", { name: "Enqueue a job" });
    await dialog.getByLabel("Type", { exact: true }).fill("shop.order");
    await dialog.getByText("Queue shop, priority 3, up to 7 attempts, timeout 5 m, tag eu").waitFor();
    await dialog.getByLabel(/^to email/).fill("unknown");
    await dialog.getByLabel(/^cents integer, 1 or more/).fill("20");
    await dialog.getByLabel(/^currency one of 2/).selectOption("USD");
    await dialog.getByLabel(/^zip/).fill("12345");
    await dialog.getByRole("button", { name: /^Enqueue/ }).click();
    await dialog.locator("#new-input-to-note .err").waitFor();
    expect(await dialog.locator(".err").count()).toBe(1);
    await dialog.getByLabel(/^to email/).fill("ada@example.com");
    await dialog.getByText("Options").click();
    expect(await dialog.getByLabel("Queue").getAttribute("placeholder")).toBe("shop");
    await dialog.getByLabel("Priority").fill("9");
    await dialog.getByText("Queue shop, priority 9").waitFor();
    await dialog.getByRole("button", { name: /^Enqueue/ }).click();
    await page.locator(".toast", { hasText: "shop.order is enqueued." }).waitFor();
    expect((await hf.list({ type: "shop.order" })).jobs[0]).toMatchObject({
      priority: 9,
      input: { to: "ada@example.com", cents: 20, currency: "USD", address: { zip: "12345" } },
    });
  });

  it("asks for what the schema needs, and not for the input of another type", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [order, welcome], expected: /400/ });
    await open("/jobs");
    await page.getByRole("button", { name: "Enqueue" }).click();
    const dialog = page.getByRole("dialog", { name: "Enqueue a job" });
    const type = dialog.getByLabel("Type", { exact: true });
    await type.fill("shop.order");
    await dialog.getByLabel(/^to email/).fill("a@b.co");
    await dialog.getByLabel(/^cents/).fill("20");
    await dialog.getByLabel(/^currency/).selectOption("USD");
    await dialog.getByRole("button", { name: /^Enqueue/ }).click();
    await dialog.locator("#new-input-address-zip-note .err").waitFor();
    await type.fill("email.welcome");
    await dialog.getByLabel(/^name/).fill("Ada");
    await dialog.getByRole("button", { name: /^Enqueue/ }).click();
    await page.locator(".toast", { hasText: "email.welcome is enqueued." }).waitFor();
    expect((await hf.list({ type: "email.welcome" })).jobs[0]?.input).toEqual({ name: "Ada", urgent: false });
  });

  it("links to the job that has the unique key", async () => {
    const { page, hf, open } = await openDashboard({ jobs: [receipt] });
    const { id } = await hf.enqueue(receipt, { to: "a@b.co" }, { delay: "1h", unique: "receipt:1" });
    const dialog = await openDialog(page, open);
    await dialog.getByRole("textbox", { name: "Input" }).fill('{"to":"a@b.co"}');
    await dialog.getByText("Options").click();
    await dialog.getByLabel("Unique key").fill("receipt:1");
    await dialog.getByRole("button", { name: /^Enqueue/ }).click();
    await page.locator(".toast", { hasText: "Another job holds this unique key" }).waitFor();
    await page.getByRole("button", { name: "Show that job" }).click();
    await page.getByRole("heading", { name: "email.receipt" }).waitFor();
    expect(page.url()).toContain(id);
  });

  it("names what is wrong, at its field", async () => {
    const { page, open } = await openDashboard({ jobs: [receipt], expected: /400/ });
    const dialog = await openDialog(page, open);
    const input = dialog.getByRole("textbox", { name: "Input" });
    await input.fill('{\n  "to": "a"\n  "b": 1\n}');
    await dialog.getByText("Line 3, column 3").waitFor();
    await dialog.getByRole("button", { name: /^Enqueue/ }).click();
    await dialog.getByText("1 field to correct").waitFor();
    await input.fill('{"to":"a","cents":0}');
    await dialog.getByText("Options").click();
    await dialog.getByLabel("Priority").fill("900");
    await dialog.getByRole("button", { name: /^Enqueue/ }).click();
    await dialog.locator("#new-priority-note .err").waitFor();
    await dialog.getByLabel("Priority").fill("");
    await dialog.getByRole("button", { name: /^Enqueue/ }).click();
    await dialog.locator("#new-input-error .err").nth(1).waitFor();
    expect(await dialog.locator("#new-input-error code").allTextContents()).toEqual(["to", "cents"]);
    await dialog.getByRole("button", { name: "Format" }).click();
    expect(await input.inputValue()).toBe('{\n  "to": "a",\n  "cents": 0\n}');
  });

  it("leaves the JSON with Tab, and keeps the draft", async () => {
    const { page, open } = await openDashboard({ jobs: [receipt] });
    const dialog = await openDialog(page, open);
    const input = dialog.getByRole("textbox", { name: "Input" });
    await input.fill('{"to":"kept@b.co"}');
    await input.press("Tab");
    expect(await input.evaluate((area) => document.activeElement === area)).toBe(false);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await page.reload();
    await page.getByRole("button", { name: "Enqueue" }).click();
    await expect.poll(() => input.inputValue()).toBe('{"to":"kept@b.co"}');
    expect(await dialog.getByLabel("Type", { exact: true }).inputValue()).toBe("email.receipt");
  });
});
