import { readConfig, InvalidConfigError, type Config } from "../config/index.js";
import type { Logger } from "../engine/events/logger.js";
import {
  StoreMovedError,
  StoreReadOnlyError,
  StoreUnavailableError,
  StoreUnreadableError,
  type HoldfastError,
} from "../errors.js";
import { rootOf, type Command, type Context, type Ending, type Program } from "./parse/command.js";
import { completionsOf } from "./parse/complete.js";
import { confirm } from "./ui/confirm.js";
import { BadUsage, EXIT, Failure, Interrupted } from "./errors.js";
import { showHelp } from "./parse/help.js";
import { createOutput, type Output, type Sink } from "./ui/output.js";
import { parseCall, type Call } from "./parse/parse.js";
import { createLogger } from "./ui/logger.js";
import { errorFields, errorJson, errorText, wantsJson } from "./ui/report.js";
import { readAll } from "./parse/stdin.js";
import { showsColours } from "./ui/style.js";
import { terminalOf } from "./ui/terminal.js";

type Stream = NodeJS.WriteStream & { fd?: number };

/** What a call of the command has to do with the world. `process` is one. */
export interface World {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: Stream;
  readonly stderr: Stream;
  cwd(): string;
  on(name: "SIGINT" | "SIGTERM", listener: () => void): unknown;
  off(name: "SIGINT" | "SIGTERM", listener: () => void): unknown;
  exit(code: number): void;
}

/** Signals that come within this are one: npm passes on what the terminal has sent to the process already. */
const SAME_SIGNAL_MS = 1_000;

/** Runs one call of the command to its end. Answers the exit code; throws nothing. */
export async function run(program: Program, world: World): Promise<number> {
  const root = rootOf(program);
  const words = world.argv.slice(2);
  const gone = new AbortController();
  let unwritten: Error | null = null;
  const stdout = sinkOf(world.stdout, world.env, (error) => {
    if (!isGone(error)) unwritten = error;
    gone.abort();
  });
  const stderr = sinkOf(world.stderr, world.env, () => {});
  if (words[0] === "__complete") {
    const lines = completionsOf(root, words.slice(1)).map(({ word, says }) =>
      says === "" ? word : `${word}\t${says}`,
    );
    if (lines.length > 0) stdout.write(`${lines.join("\n")}\n`);
    return EXIT.done;
  }
  // Before the call is understood, its errors must look right already.
  const colour = words.includes("--no-color") ? false : words.includes("--color") ? true : undefined;
  const colours = (sink: Sink): boolean =>
    showsColours({ flag: colour, env: world.env, terminal: sink.cells() !== null });
  const verbose = words.includes("--verbose");
  let usage = `${root.name} --help shows how it is used`;
  const stopping = new AbortController();
  const stopListening = onSignals(world, stopping);
  let output: Output | null = null;
  try {
    const call = parseCall(root, words);
    usage = `${[root.name, ...call.path].join(" ")} --help shows how it is used`;
    output = createOutput({
      stdout,
      stderr,
      json: call.flags["json"] === true,
      colours: { stdout: colours(stdout), stderr: colours(stderr) },
      gone: gone.signal,
      now: () => performance.now(),
    });
    const ending = await perform(call, { program, root, world, output, stderr, signal: stopping.signal });
    // A stream tells of what it could not write in a later turn.
    await new Promise((resolve) => setImmediate(resolve));
    if (unwritten !== null) throw cannotWrite(unwritten);
    return ending ?? interruption(stopping.signal) ?? EXIT.done;
  } catch (error) {
    const interrupted = error instanceof Interrupted ? EXIT[error.signal] : interruption(stopping.signal);
    // What fails while the command ends, as it was asked to, is told like any other failure.
    if (interrupted !== null && isInterruption(error)) {
      // The shell's prompt would stand behind the ^C.
      if (stderr.cells() !== null) stderr.write("\n");
      return interrupted;
    }
    const log = output?.log ?? null;
    if (wantsJson(words)) stderr.write(errorJson(error, { verbose, usage }));
    else if (log === null) stderr.write(errorText(error, { colours: colours(stderr), verbose, usage }));
    else {
      const { message, ...fields } = errorFields(error, { verbose, usage });
      log.error(fields, message);
    }
    return error instanceof BadUsage || error instanceof InvalidConfigError ? EXIT.badUsage : EXIT.failed;
  } finally {
    stopListening();
  }
}

function cannotWrite(cause: Error): Failure {
  return new Failure(`the answer could not be written: ${cause.message}`, { cause });
}

interface Surroundings {
  program: Program;
  root: Command;
  world: World;
  output: Output;
  stderr: Sink;
  signal: AbortSignal;
}

async function perform(call: Call, surroundings: Surroundings): Promise<Ending> {
  const { program, root, world, output, stderr, signal } = surroundings;
  const { version } = program;
  if (call.flags["help"] === true) return showHelp(output, root, call.path, call.command);
  if (call.flags["version"] === true) {
    output.answer({ version }, (page) => page.line(version));
    return undefined;
  }
  const { run: runCommand } = call.command;
  if (runCommand === null) return undefined;
  const cwd = world.cwd();
  const file = call.flags["config"] as string | undefined;
  let config: Config | null = null;
  const context: Context = {
    get config() {
      if (config === null) {
        config = readConfig({ cwd, env: world.env, file, flags: call.keyFlags });
        if (call.command.logs && config.values["log.format"] === "json") output.logTo(logOf(config, stderr));
        for (const warning of config.warnings) output.warn(warning);
      }
      return config;
    },
    output,
    signal,
    env: world.env,
    cwd,
    argv: world.argv,
    configFile: file,
    version,
    root,
    confirm: (question, yes) => confirm(question, yes, { stdin: world.stdin, stderr: world.stderr, signal }),
    writeStderr: (text) => stderr.write(text),
    readInput: (mostBytes) => readAll(world.stdin, mostBytes),
  };
  // A flag that sets a key must be right, whether the command comes to look at that key or not.
  if (Object.keys(call.keyFlags).length > 0) void context.config;
  try {
    return await runCommand(context, { flags: call.flags as never, args: call.args as never });
  } catch (error) {
    if (config === null || !isOfStore(error)) throw error;
    const { sourceOfStore } = await import("./store/bare-store.js");
    throw new Failure(error.message, { code: error.code, cause: error, hint: sourceOfStore(config) });
  }
}

/** The log for what a command itself has to say. Why it ended is told, however silent it is to be. */
function logOf({ values }: Config, stderr: Sink): Logger {
  const level = values["log.level"] === "silent" ? "error" : values["log.level"];
  return createLogger({ level, format: "json", write: (line) => stderr.write(line), now: () => new Date() });
}

/** The store cannot be used at all: whoever reads that wants to know who named it. */
function isOfStore(error: unknown): error is HoldfastError {
  return [StoreUnavailableError, StoreUnreadableError, StoreReadOnlyError, StoreMovedError].some(
    (kind) => error instanceof kind,
  );
}

/** Writes until nobody reads any more. What is written after that is lost, and the command goes on. */
function sinkOf(stream: Stream, env: World["env"], onEnd: (error: NodeJS.ErrnoException) => void): Sink {
  let open = true;
  stream.on("error", (error: NodeJS.ErrnoException) => {
    open = false;
    onEnd(error);
  });
  return {
    write(text) {
      if (open) stream.write(text);
    },
    // A pseudo-terminal whose size nobody set says 0.
    cells: () => (stream.isTTY ? stream.columns || 80 : null),
    terminal: terminalOf(stream, env),
  };
}

/** A pipe whose reader has gone, or a terminal that was closed. */
function isGone({ code }: NodeJS.ErrnoException): boolean {
  return code === "EPIPE" || code === "EIO";
}

function interruption(signal: AbortSignal): number | null {
  const reason: unknown = signal.reason;
  return signal.aborted && reason instanceof Interrupted ? EXIT[reason.signal] : null;
}

const DEEPEST_CAUSE = 5;

/** Whether a command was thrown out of its work by the signal: by its reason, or by what Node makes of it. */
function isInterruption(error: unknown): boolean {
  for (let at = error, depth = 0; at instanceof Error && depth < DEEPEST_CAUSE; at = at.cause, depth++) {
    if (at instanceof Interrupted || at.name === "AbortError") return true;
  }
  return false;
}

/** The first signal asks the command to end; another ends the process. */
function onSignals(world: World, stopping: AbortController): () => void {
  let first: number | null = null;
  const listenTo = (name: "SIGINT" | "SIGTERM"): (() => void) => {
    const listener = (): void => {
      const now = performance.now();
      if (first === null) {
        first = now;
        stopping.abort(new Interrupted(name));
      } else if (now - first >= SAME_SIGNAL_MS) world.exit(EXIT[name]);
    };
    world.on(name, listener);
    return () => void world.off(name, listener);
  };
  const offs = [listenTo("SIGINT"), listenTo("SIGTERM")];
  return () => {
    for (const off of offs) off();
  };
}
