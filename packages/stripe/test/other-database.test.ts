import Sqlite from "better-sqlite3";
import { beforeEach, expect, it, onTestFinished } from "vitest";
import { describeDatabases, type PackDatabase } from "../../holdfast/test/pack/scene.js";
import { stripe, type StripePack } from "../dist/index.js";
import { invoicePaid, openClient, SECRET, signed } from "./scene.js";

/** Events are in SQLite, and jobs on a store whose calls are asynchronous. */
describeDatabases(
  (open) => {
    let jobs: PackDatabase;
    beforeEach(async () => (jobs = await open()));

    function openPack(): { db: Sqlite.Database; pack: StripePack; errors: unknown[]; rejections: unknown[] } {
      const db = new Sqlite(":memory:");
      db.exec("CREATE TABLE paid (event text)");
      const [errors, rejections] = [[] as unknown[], [] as unknown[]];
      const listen = (error: unknown): void => void rejections.push(error);
      process.on("unhandledRejection", listen);
      onTestFinished(() => {
        process.off("unhandledRejection", listen);
        db.close();
      });
      const pack = stripe({
        db,
        webhookSecrets: SECRET,
        on: { "invoice.paid": ({ id }) => void db.prepare("INSERT INTO paid VALUES (?)").run(id) },
        onError: (error) => errors.push(error),
      });
      return { db, pack, errors, rejections };
    }
    const refused = { code: "INVALID_OPTION", field: "db" };

    it("install refuses a client whose jobs are in another database", async () => {
      const { pack } = openPack();
      const hf = await openClient(jobs, pack);
      await expect(pack.install(hf)).rejects.toMatchObject(refused);
      await expect(pack.install(hf)).rejects.toThrow("Pass the database that holds the jobs");
    });

    it("E-08 an event whose job cannot be enqueued with it is not stored", async () => {
      const { db, pack, errors, rejections } = openPack();
      const hf = await openClient(jobs, pack);
      await pack.install();
      const event = invoicePaid();
      for (let time = 1; time <= 2; time++) {
        expect((await pack.webhook(hf)(signed(event))).status).toBe(500);
        expect(errors.splice(0)).toMatchObject([refused]);
      }
      expect(db.prepare("SELECT id FROM stripe_events").all()).toEqual([]);
      expect((await hf.list()).jobs).toEqual([]);
      // A rejection that nothing handles is reported before the next timer.
      await new Promise((resolve) => setTimeout(resolve, 1));
      expect(rejections).toEqual([]);
    });

    it("E-08 an effect whose job cannot be completed with it is rolled back", async () => {
      const { db, pack, rejections } = openPack();
      const hf = await openClient(jobs, pack);
      await pack.install();
      const event = invoicePaid();
      await hf.enqueue(pack.process, { eventId: event.id, eventType: event.type, payload: { ...event } });
      await hf.drain();
      expect((await hf.list()).jobs).toMatchObject([{ state: "dead", error: { code: "INVALID_OPTION" } }]);
      expect(db.prepare("SELECT event FROM paid").all()).toEqual([]);
      expect(rejections).toEqual([]);
    });
  },
  ["postgres"],
);
