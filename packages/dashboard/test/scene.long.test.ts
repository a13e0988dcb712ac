import { expect, it, onTestFinished } from "vitest";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

inBrowser("the test set-up", () => {
  it.each([
    ["an inline handler", 'try { document.body.setAttribute("onclick", "1") } catch {}'],
    ["an inline style", 'document.body.append(Object.assign(document.createElement("style"), { textContent: "a{}" }))'],
    ["markup from a string", 'try { document.body.innerHTML = "<b>x</b>" } catch {}'],
    ["an image of another host", 'new Image().src = "http://127.0.0.2:9/x.png"'],
    ["a console error", 'console.error("x")'],
    ["an exception", 'setTimeout(() => { throw new Error("x") })'],
  ])("notices %s, on every page", async (_name, script) => {
    const { page, open, context, url, problems } = await openDashboard();
    // Before the set-up looks at them.
    onTestFinished(() => void (problems.length = 0));
    await open("/jobs");
    const other = await context.newPage();
    await other.goto(`${url}/jobs`);
    for (const each of [page, other]) {
      await each.evaluate(script);
      await expect.poll(() => problems.length).toBeGreaterThan(0);
      problems.length = 0;
    }
  });
});
