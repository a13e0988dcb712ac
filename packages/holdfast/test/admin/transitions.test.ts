import { describe, expect, it } from "vitest";
import { adminScene, adminStores, mail, never } from "./scene.js";

describe.each(adminStores())("transitions.list on %s", (_name, store) => {
  it("finds a rare change among many in one call", async () => {
    const { hf, as } = await adminScene(store());
    const viewer = await as("viewer");
    const { cursor } = await viewer.transitions.list({});
    await hf.enqueueMany(
      never,
      Array.from({ length: 900 }, () => ({})),
      { delay: "1h" },
    );
    const { id } = await hf.enqueue(mail, { to: "ada" });
    const page = await viewer.transitions.list({ cursor, type: ["mail"], limit: 100 });
    expect(page.transitions.map((each) => [each.id, each.to])).toEqual([[id, "pending"]]);
    const { id: next } = await hf.enqueue(mail, { to: "bob" });
    const more = await viewer.transitions.list({ cursor: page.cursor, type: ["mail"] });
    expect(more.transitions.map((each) => each.id)).toEqual([next]);
  });

  it("is refused to users", async () => {
    const { as } = await adminScene(store());
    const ada = await as("user", "ada");
    const refused = { code: "FORBIDDEN" };
    await expect(ada.transitions.list({})).rejects.toMatchObject(refused);
    await expect(ada.errors.list({})).rejects.toMatchObject(refused);
    await expect(ada.history.get({})).rejects.toMatchObject(refused);
  });
});
