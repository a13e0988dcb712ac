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

  it("keeps the page when the session ends, until the same caller signs in", async () => {
    const { page, open, hf, url } = await openDashboard({ role: "operator", expected: /401/ });
    await hf.enqueueNamed("email.welcome", {}, { queue: "mail" });
    const signIn = async (token: string): Promise<void> => {
      await page.getByRole("alert").getByRole("button", { name: "Sign in" }).click();
      await page.getByRole("dialog").getByLabel("API token").fill(token);
      await page.keyboard.press("Enter");
    };
    const revokeAll = async (): Promise<void> => {
      for (const { id } of await hf.tokens.list()) await hf.tokens.revoke(id);
    };
    await open("/queues");
    await page.getByRole("button", { name: "Pause mail" }).waitFor();
    await revokeAll();
    const { token } = await hf.tokens.create({ name: "operator", role: "operator" });
    await page.getByRole("button", { name: "Pause mail" }).click();
    await page.getByRole("alert").getByText("This page is kept.").waitFor();
    expect(await page.getByRole("button", { name: "Pause mail" }).count()).toBe(1);
    await page.getByText("Offline").waitFor();
    await page.getByRole("link", { name: "Jobs", exact: true }).click();
    await page.getByRole("heading", { name: "Your session has expired." }).waitFor();
    await signIn(token);
    await page.locator("tr.job").waitFor();
    await page.getByRole("button", { name: "Live" }).waitFor();
    expect(await page.locator(".banner").count()).toBe(0);
    expect(page.url()).toBe(`${url}/jobs`);
    // Another caller sees nothing of what this one has loaded.
    await revokeAll();
    const other = await hf.tokens.create({ name: "ada", role: "user", user: "ada" });
    await page.getByRole("button", { name: /^pending/ }).click();
    await signIn(other.token);
    await page.getByRole("heading", { name: "No job matches" }).waitFor();
    expect(await page.getByRole("link", { name: "Queues", exact: true }).count()).toBe(0);
  });

  it("notices that the server does not respond, and that it is back", async () => {
    const { page, open, context } = await openDashboard({
      expected: /ERR_INTERNET_DISCONNECTED|Failed to fetch/,
      // Modules that other tests have loaded are in the cache of their page.
      ownPage: true,
    });
    await open("/jobs");
    await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
    await context.setOffline(true);
    await page.getByRole("button", { name: "Enqueue" }).first().click();
    await page.locator(".toast").getByText("This part of the page could not be loaded.").waitFor();
    await page.getByRole("link", { name: "Workers", exact: true }).click();
    await page.getByRole("heading", { name: "This part of the page could not be loaded." }).waitFor();
    await page.getByRole("link", { name: "Jobs", exact: true }).click();
    await page.getByRole("alert").getByText("No connection to the server.").waitFor();
    await page.getByText("Offline").waitFor();
    await context.setOffline(false);
    await page.getByRole("alert").getByRole("button", { name: "Try now" }).click();
    await page.getByRole("button", { name: "Live" }).waitFor();
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
