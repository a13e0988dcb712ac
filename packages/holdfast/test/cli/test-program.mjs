// A program with commands for tests. Tests import it or run it as a process.
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { command, group, keyFlag, YES } from "../../dist/cli/parse/command.js";
import { workOptions } from "../../dist/cli/work-options.js";
import { run } from "../../dist/cli/run.js";
import { paint } from "../../dist/cli/ui/style.js";

const job = {
  id: "01890a5d-ac96-774b-bcce-b302099a8057",
  error:
    "\u001b]0;owned\u0007\u001b[31mred\u001b[0m\nnext\u009b2J 漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字",
};

const commands = [
  command({
    name: "show",
    summary: "Show a job with hostile text.",
    run({ output }) {
      output.result({ jobs: [job] }, (page) => {
        page.table([{ title: "Id", whole: true }, { title: "Error" }], [[job.id, paint(job.error, "red")]]);
        page.fields([["error", job.error]]);
        page.block(job.error);
      });
    },
  }),
  command({
    name: "destroy",
    summary: "Delete everything.",
    flags: { yes: YES },
    async run({ output, confirm }, { flags }) {
      await confirm("Destroy it all?", flags.yes);
      output.result({ destroyed: true }, (page) => page.line("destroyed"));
    },
  }),
  command({
    name: "wait",
    summary: "Wait until stopped.",
    flags: {
      ignore: { kind: "switch", description: "Ignore signals." },
      drain: { kind: "switch", description: "Exit with 0 when stopped." },
      fail: { kind: "switch", description: "Fail when stopped." },
    },
    async run({ output, signal }, { flags }) {
      output.event({ ready: true }, (page) => page.line("ready"));
      try {
        await sleep(60_000, undefined, { signal: flags.ignore ? undefined : signal });
      } catch (error) {
        if (flags.fail) throw new Error("the outcome of a job was not kept", { cause: new Error("the disk is full") });
        if (!flags.drain) throw error;
        output.note("drained");
        return 0;
      }
      return undefined;
    },
  }),
  command({
    name: "lines",
    summary: "Print many lines, then continue.",
    async run({ output }) {
      output.result(null, (page) => {
        for (let n = 0; n < 200_000; n++) page.line(`line ${n}`);
      });
      // More than fits into a pipe, so the reader closes it before all is written.
      if (!output.stdoutClosed.aborted) await once(output.stdoutClosed, "abort");
      output.note("done");
    },
  }),
  command({
    name: "boom",
    summary: "Fail unexpectedly.",
    run() {
      throw new Error("it went wrong", { cause: new TypeError("deep down") });
    },
  }),
  command({
    name: "work",
    summary: "Take flags of all kinds.",
    arguments: { module: { kind: "text", optional: true, complete: "files", description: "The module." } },
    flags: {
      concurrency: keyFlag("jobs.concurrency"),
      state: { kind: "choice", choices: ["pending", "dead"], repeated: true, description: "Only these." },
      priority: { kind: "count", min: -100, max: 100, default: 0, short: "p", description: "How soon." },
      input: { kind: "json", description: "The input." },
    },
    run(context, { flags, args }) {
      const work = workOptions(context);
      if (work === null) return;
      const { state, priority, input } = flags;
      context.output.result({ work, state, priority, input: input ?? null, module: args.module ?? null }, (page) =>
        page.line(`works on ${work.concurrency}`),
      );
    },
  }),
  command({
    name: "count",
    summary: "Show progress.",
    run({ output }) {
      const progress = output.progress("counting", 4_000);
      progress.update(4_000);
      progress.end();
      output.result({ counted: 4_000 }, (page) => page.line("counted"));
    },
  }),
  command({
    name: "echo",
    summary: "Print stdin.",
    async run({ output, readInput }) {
      const input = await readInput(100);
      output.result({ input }, (page) => page.line(input));
    },
  }),
  group({ name: "deep", summary: "A group.", commands: [command({ name: "er", summary: "Deeper.", run() {} })] }),
];

export const testProgram = { name: "test", summary: "For tests.", version: "1.2.3", commands };

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = await run(testProgram, process);
