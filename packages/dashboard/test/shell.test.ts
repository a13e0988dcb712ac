import { expect, it } from "vitest";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

inBrowser("the shell", () => {
  it("shows the views that a role may see", async () => {
    const { page, open } = await openDashboard({ role: "viewer" });
    await open("/jobs");
    const links = page.locator(".side nav a");
    await links.first().waitFor();
    expect(await links.allTextContents()).toEqual(["Overview", "Jobs", "Failures", "Schedules", "Queues", "Workers"]);
    expect(await page.getByRole("button", { name: "Enqueue" }).count()).toBe(0);
  });

  it("asks for a token, and shows the page after it", async () => {
    const { page, open, hf } = await openDashboard({ admin: { auth: "tokens" }, expected: /401/ });
    const { token } = await hf.tokens.create({ name: "ada", role: "admin" });
    await open("/queues");
    await page.getByLabel("API token").fill("hf_wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("This token is not valid.").waitFor();
    await page.getByLabel("API token").fill(token);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Queues", level: 1 }).waitFor();
    await page.getByText("ada · admin").waitFor();
  });

  it("works below a prefix", async () => {
    const { page, url, open } = await openDashboard({ prefix: "/ops/queue" });
    await open("");
    await page.getByRole("link", { name: "Workers", exact: true }).click();
    await page.getByRole("heading", { name: "Workers", level: 1 }).waitFor();
    expect(page.url()).toBe(`${url}/workers`);
    await page.reload();
    await page.getByRole("heading", { name: "Workers", level: 1 }).waitFor();
    await page.goBack();
    await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  });
});
