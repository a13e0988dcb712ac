import { job } from "holdfast";
import type { Locator, Page } from "playwright-core";
import { expect, it } from "vitest";
import { z } from "zod";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

const receipt = job({
  type: "email.receipt",
  queue: "mail",
  input: z.object({ to: z.email(), cents: z.int().min(1).optional() }),
  run: () => "sent",
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
    expect(await dialog.locator(".codebox").textContent()).toContain('delay: "2h"');
    await page.keyboard.press("Control+Enter");
    await page.locator(".toast").getByRole("button", { name: "Show the job" }).click();
    await page.getByRole("heading", { name: "email.receipt" }).waitFor();
    const [stored] = (await hf.list({ user: "u-1" })).jobs;
    expect(stored).toMatchObject({ queue: "mail", priority: 5, tags: ["eu", "shop"], key: "receipt:1" });
    expect(page.url()).toContain(stored?.id);
  });

  it("links to the job that has the unique key", async () => {
    const { page, hf, open } = await openDashboard({ jobs: [receipt] });
    const { id } = await hf.enqueue(receipt, { to: "a@b.co" }, { delay: "1h", unique: "receipt:1" });
    const dialog = await openDialog(page, open);
    await dialog.getByRole("textbox", { name: "Input" }).fill('{"to":"a@b.co"}');
    await dialog.getByText("Options").click();
    await dialog.getByLabel("Unique key").fill("receipt:1");
    await dialog.getByText("is held by a pending job").waitFor();
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
    await dialog.locator("#new-priority-error .err").waitFor();
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
