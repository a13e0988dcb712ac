import { describe as allowed, KEY_NAMES, keyOf, variableOf } from "../../packages/holdfast/dist/config/index.js";
import { expect, it } from "vitest";
import { readDocument, tableAfter } from "./documents.js";

it("C-20 C-21 docs/guides/configuration.md lists every key, and no other, as the table of the code has it", () => {
  const listed = tableAfter(readDocument("docs/guides/configuration.md"), "Keys");
  expect(listed).toEqual(
    KEY_NAMES.map((name) => {
      const key = keyOf(name);
      const text = typeof key.default === "string" ? key.default : JSON.stringify(key.default);
      const value = key.default === null ? "not set" : `\`${text}\``;
      return [`\`${name}\``, `\`${variableOf(name)}\``, value, allowed(key), key.description];
    }),
  );
});
