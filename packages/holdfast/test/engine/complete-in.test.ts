import { sqlite } from "holdfast/sqlite";
import { onTestFinished } from "vitest";
import { connect, tempFile } from "../sqlite/scene.js";
import { completingCases, type Desk } from "./completing.js";
import { keepingCases } from "./keeping.js";

const desk = async (): Promise<Desk> => {
  const file = tempFile();
  const db = connect(file);
  db.exec("CREATE TABLE effects (output TEXT)");
  return {
    store: `sqlite:${file}`,
    async effect(context, output, end) {
      // As an application would do it: nothing in the transaction is awaited.
      const work = db.transaction(() => {
        db.prepare("INSERT INTO effects VALUES (?)").run(JSON.stringify(output));
        void context.completeIn(db, output);
        if (end === "roll back") throw new Error("roll back");
      });
      try {
        work.immediate();
      } catch (error) {
        if ((error as Error).message !== "roll back") throw error;
      }
    },
    effects: async () => db.prepare("SELECT count(*) FROM effects").pluck().get() as number,
    async again() {
      const store = sqlite(file);
      onTestFinished(() => store.close());
      return store;
    },
  };
};

completingCases("SQLite", desk);
keepingCases("SQLite", desk);
