import { it } from "vitest";
import { describeDatabases } from "../../../holdfast/test/pack/scene.js";
import { sendThroughCrashes } from "./killed.js";

describeDatabases((open) => {
  it("E-06 killed in the middle, a newsletter reaches each subscriber once", { timeout: 120_000 }, async () => {
    await sendThroughCrashes(await open(), { readers: 520, stallAt: 510, second: 150 });
  });
});
