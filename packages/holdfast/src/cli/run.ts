import { readConfig, InvalidConfigError, type Config } from "../config/index.js";
import type { Logger } from "../engine/events/logger.js";
import {
  StoreMovedError,
  StoreReadOnlyError,
  StoreUnavailableError,
  StoreUnreadableError,
  type HoldfastError,
} from "../errors.js";
import { rootOf, type Command, type Context, type ExitCode, type Program } from "./parse/command.js";
import { completionsOf } from "./parse/complete.js";
import { confirm } from "./ui/confirm.js";
import { UsageError, EXIT, CommandError, InterruptedError } from "./errors.js";
import { showHelp } from "./parse/help.js";
import { createOutput, type Output, type Sink } from "./ui/output.js";
import { findSwitch, parseCall, usageHint, type Call } from "./parse/parse.js";
import { createLogger } from "./ui/logger.js";
import { errorFields, errorJson, errorText } from "./ui/report.js";
import { readAll } from "./parse/stdin.js";
import { showsColours } from "./ui/style.js";
import { terminalOf } from "./ui/terminal.js";

type Stream = NodeJS.WriteStream & { fd?: number };

/** What a command needs of its process. `process` implements it; tests pass their own. */
export interface HostProcess {
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

/** Signals within this time count as one: npm forwards a signal that the terminal has already sent to the process. */
const SAME_SIGNAL_MS = 1_000;

/** Runs one command. Returns the exit code; never throws. */
export async function run(program: Program, host: HostProcess): Promise<number> {
  const root = rootOf(program);
  const words = host.argv.slice(2);
  const stdoutClosed = new AbortController();
  let writeError: Error | null = null;
  const stdout = sinkOf(host.stdout, host.env, (error) => {
    if (!isReaderGone(error)) writeError = error;
    stdoutClosed.abort();
  });
  const stderr = sinkOf(host.stderr, host.env, () => {});
  if (words[0] === "__complete") {
    const lines = completionsOf(root, words.slice(1)).map(({ word, description }) =>
      description === "" ? word : `${word}\t${description}`,
    );
    if (lines.length > 0) stdout.write(`${lines.join("\n")}\n`);
    return EXIT.done;
  }
  // Errors of parsing must be printed as requested too, so these flags are searched for before parsing.
  const colour = findSwitch(words, "color");
  const colours = (sink: Sink): boolean =>
    showsColours({ flag: colour, env: host.env, terminal: sink.terminalWidth() !== null });
  const verbose = findSwitch(words, "verbose") === true;
  let usage = usageHint(root.name);
  const stopping = new AbortController();
  const stopListening = onSignals(host, stopping);
  let output: Output | null = null;
  try {
    const call = parseCall(root, words);
    usage = usageHint([root.name, ...call.path].join(" "));
    output = createOutput({
      stdout,
      stderr,
      json: call.flags["json"] === true,
      colours: { stdout: colours(stdout), stderr: colours(stderr) },
      stdoutClosed: stdoutClosed.signal,
      now: () => performance.now(),
    });
    const exitCode = await perform(call, { program, root, host, output, stderr, signal: stopping.signal });
    // A stream emits a write error in a later event-loop iteration.
    await new Promise((resolve) => setImmediate(resolve));
    if (writeError !== null) throw cannotWrite(writeError);
    return exitCode ?? interruption(stopping.signal) ?? EXIT.done;
  } catch (error) {
    const interrupted = error instanceof InterruptedError ? EXIT[error.signal] : interruption(stopping.signal);
    // An error of the shutdown itself is reported like any other.
    if (interrupted !== null && isInterruption(error)) {
      // Otherwise the shell's prompt would follow the ^C on the same line.
      if (stderr.terminalWidth() !== null) stderr.write("\n");
      return interrupted;
    }
    const log = output?.log ?? null;
    if (findSwitch(words, "json") === true) stderr.write(errorJson(error, { verbose, usage }));
    else if (log === null) stderr.write(errorText(error, { colours: colours(stderr), verbose, usage }));
    else {
      const { message, ...fields } = errorFields(error, { verbose, usage });
      log.error(fields, message);
    }
    return error instanceof UsageError || error instanceof InvalidConfigError ? EXIT.badUsage : EXIT.failed;
  } finally {
    stopListening();
  }
}

function cannotWrite(cause: Error): CommandError {
  return new CommandError(`cannot write the result: ${cause.message}`, { cause });
}

interface CommandEnvironment {
  program: Program;
  root: Command;
  host: HostProcess;
  output: Output;
  stderr: Sink;
  signal: AbortSignal;
}

async function perform(call: Call, environment: CommandEnvironment): Promise<ExitCode> {
  const { program, root, host, output, stderr, signal } = environment;
  const { version } = program;
  if (call.flags["help"] === true) return showHelp(output, root, call.path, call.command);
  if (call.flags["version"] === true) {
    output.result({ version }, (writer) => writer.line(version));
    return undefined;
  }
  const { run: runCommand } = call.command;
  if (runCommand === null) return undefined;
  const cwd = host.cwd();
  const file = call.flags["config"] as string | undefined;
  let config: Config | null = null;
  const context: Context = {
    get config() {
      if (config === null) {
        config = readConfig({ cwd, env: host.env, file, flags: call.keyFlags });
        if (call.command.logs && config.values["log.format"] === "json") output.logTo(logOf(config, stderr));
        for (const warning of config.warnings) output.warn(warning);
      }
      return config;
    },
    output,
    signal,
    env: host.env,
    cwd,
    argv: host.argv,
    configFile: file,
    version,
    root,
    confirm: (question, yes) => confirm(question, yes, { stdin: host.stdin, stderr: host.stderr, signal }),
    writeStderr: (text) => stderr.write(text),
    readInput: (maxBytes) => readAll(host.stdin, maxBytes),
  };
  // A flag that sets a configuration key must be valid, even if the command does not read that key.
  if (Object.keys(call.keyFlags).length > 0) void context.config;
  try {
    return await runCommand(context, { flags: call.flags as never, args: call.args as never });
  } catch (error) {
    if (config === null || !isStoreError(error)) throw error;
    const { describeStoreSource } = await import("./store/open.js");
    throw new CommandError(error.message, { code: error.code, cause: error, hint: describeStoreSource(config) });
  }
}

/** The log for notes of the command itself. The error that ends a command is logged even at level silent. */
function logOf({ values }: Config, stderr: Sink): Logger {
  const level = values["log.level"] === "silent" ? "error" : values["log.level"];
  return createLogger({ level, format: "json", write: (line) => stderr.write(line), now: () => new Date() });
}

/** The store cannot be used at all. The hint then names where its address comes from. */
function isStoreError(error: unknown): error is HoldfastError {
  return [StoreUnavailableError, StoreUnreadableError, StoreReadOnlyError, StoreMovedError].some(
    (kind) => error instanceof kind,
  );
}

/** Writes to a stream until its reader closes it. Later writes are dropped, and the command continues. */
function sinkOf(stream: Stream, env: HostProcess["env"], onEnd: (error: NodeJS.ErrnoException) => void): Sink {
  let open = true;
  stream.on("error", (error: NodeJS.ErrnoException) => {
    open = false;
    onEnd(error);
  });
  return {
    write(text) {
      if (open) stream.write(text);
    },
    // A pseudo-terminal without a size has 0 columns.
    terminalWidth: () => (stream.isTTY ? stream.columns || 80 : null),
    terminal: terminalOf(stream, env),
  };
}

/** A pipe whose reader has closed it, or a closed terminal. */
function isReaderGone({ code }: NodeJS.ErrnoException): boolean {
  return code === "EPIPE" || code === "EIO";
}

function interruption(signal: AbortSignal): number | null {
  const reason: unknown = signal.reason;
  return signal.aborted && reason instanceof InterruptedError ? EXIT[reason.signal] : null;
}

const MAX_CAUSES = 5;

/** Whether an error was caused by the abort signal: its reason, or an AbortError of Node. */
function isInterruption(error: unknown): boolean {
  for (let at = error, depth = 0; at instanceof Error && depth < MAX_CAUSES; at = at.cause, depth++) {
    if (at instanceof InterruptedError || at.name === "AbortError") return true;
  }
  return false;
}

/** The first signal asks the command to stop; the next one ends the process. */
function onSignals(host: HostProcess, stopping: AbortController): () => void {
  let first: number | null = null;
  const listenTo = (name: "SIGINT" | "SIGTERM"): (() => void) => {
    const listener = (): void => {
      const now = performance.now();
      if (first === null) {
        first = now;
        stopping.abort(new InterruptedError(name));
      } else if (now - first >= SAME_SIGNAL_MS) host.exit(EXIT[name]);
    };
    host.on(name, listener);
    return () => void host.off(name, listener);
  };
  const offs = [listenTo("SIGINT"), listenTo("SIGTERM")];
  return () => {
    for (const off of offs) off();
  };
}
