import { it } from "vitest";
import { describeDatabases } from "../../../holdfast/test/pack/scene.js";
import { sendThroughCrashes } from "./killed.js";

describeDatabases((open) => {
  it(
    "E-06 killed in the middle, a newsletter reaches each of 10,000 subscribers once",
    { timeout: 600_000 },
    async () => {
      await sendThroughCrashes(await open(), { readers: 10_000, stallAt: 6_200, second: 4_000 });
    },
  );
});
