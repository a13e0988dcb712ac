import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { mail, newsletter, passwordReset } from "@holdfast/mail";
import Sqlite from "better-sqlite3";
import { holdfast, type JobType } from "holdfast";
import { beforeEach, expect, it, onTestFinished } from "vitest";
import { describeDatabases, type PackDatabase } from "../../holdfast/test/pack/scene.js";
import { openClient } from "./scene.js";

const REFUSED = { code: "INVALID_OPTION", field: "db" };
const ADA = { id: "user-1", email: "ada@example.com" };

/** Rows are in SQLite, and jobs on a store whose calls are asynchronous. */
describeDatabases(
  (open) => {
    let jobs: PackDatabase;
    beforeEach(async () => (jobs = await open()));

    const post = () => mail({ transport: { send: () => Promise.reject(new Error("no")) }, from: "a@club.example" });

    /** A database in which a pack was installed with a client of its own. */
    async function installedIn(
      pack: { install: (hf: never) => Promise<void> },
      file: string,
      types: readonly JobType[],
    ) {
      const hf = await holdfast({ store: `sqlite:${file}`, jobs: types, logger: false });
      await pack.install(hf as never);
      await hf.close();
    }
    function openDb(): Sqlite.Database {
      const folder = mkdtempSync(join(tmpdir(), "holdfast-mail-test-"));
      const db = new Sqlite(join(folder, "app.db"));
      onTestFinished(() => {
        db.close();
        rmSync(folder, { recursive: true, force: true });
      });
      return db;
    }

    it("E-09 a password reset is not counted if its job is not in its database", async () => {
      const [db, pack] = [openDb(), post()];
      const users = { byEmail: () => ADA, byId: () => ADA };
      const reset = passwordReset({ mail: pack, db, users, link: (token) => token });
      await installedIn(reset, db.name, pack.jobs);
      const { hf } = await openClient(jobs, { jobs: pack.jobs });
      await expect(reset.install(hf)).rejects.toMatchObject(REFUSED);
      await expect(reset.requestFor(hf, ADA.email)).rejects.toMatchObject(REFUSED);
      expect(db.prepare("SELECT address FROM password_reset_requests").all()).toEqual([]);
    });

    it("E-06 a newsletter is not scheduled if its job is not in its database", async () => {
      const [db, pack] = [openDb(), post()];
      const news = newsletter({ mail: pack, db, subscribers: () => [] });
      await installedIn(news, db.name, [...pack.jobs, ...news.jobs]);
      const { hf } = await openClient(jobs, { jobs: [...pack.jobs, ...news.jobs] });
      await expect(news.install(hf)).rejects.toMatchObject(REFUSED);
      const { id } = await news.create({ subject: "Spring", textBody: "Hello" });
      await expect(news.schedule(hf, id, { at: Date.now() })).rejects.toMatchObject(REFUSED);
      expect(db.prepare("SELECT id FROM newsletter_send_runs").all()).toEqual([]);
    });
  },
  ["postgres"],
);
