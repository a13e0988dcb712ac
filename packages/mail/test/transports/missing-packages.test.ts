import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";

const PACKAGES = join(import.meta.dirname, "../../..");
const MODULES = join(PACKAGES, "../node_modules");

/** A folder in which the packs are installed, without the packages that they need only for some transports. */
function installed(): string {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-mail-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const pack of ["mail", "stripe"]) {
    const home = join(folder, "node_modules/@holdfast", pack);
    mkdirSync(home, { recursive: true });
    for (const part of ["package.json", "dist"])
      cpSync(join(PACKAGES, pack, part), join(home, part), { recursive: true });
  }
  for (const name of ["holdfast", "zod"]) symlinkSync(join(MODULES, name), join(folder, "node_modules", name));
  return folder;
}

it.each([
  ["nodemailer", 'import { smtp } from "@holdfast/mail/smtp"; smtp("smtp://localhost:2525");'],
  ["postmark", 'import { postmark } from "@holdfast/mail/postmark"; postmark({ token: "t" });'],
  ["smtp-server", 'import { smtpInbox } from "@holdfast/mail/testing"; await smtpInbox();'],
  [
    "stripe",
    'import { stripe } from "@holdfast/stripe"; stripe({ webhookSecrets: "whsec_of_a_test", on: {}, api: "sk_test_1" });',
  ],
])("the package %s is loaded on demand, with an error that says what to install", async (name, program) => {
  const run = promisify(execFile)(process.execPath, ["--input-type=module", "--eval", program], { cwd: installed() });
  const error = (await run.catch((thrown: unknown) => thrown)) as { stderr?: string };
  expect(error.stderr).toContain(`npm install ${name}`);
  expect(error.stderr).toContain("DRIVER_MISSING");
});
