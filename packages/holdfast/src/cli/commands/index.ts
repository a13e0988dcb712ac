import type { Command } from "../parse/command.js";
import { auditCommand } from "./audit.js";
import { completionCommand } from "./completion.js";
import { configCommand } from "./config.js";
import { devCommand } from "./dev.js";
import { doctorCommand } from "./doctor.js";
import { enqueueCommand } from "./enqueue.js";
import { emitCommand } from "./emit.js";
import { errorsCommand } from "./errors.js";
import { helpCommand } from "./help.js";
import { importCommand } from "./import.js";
import { jobsCommand } from "./jobs/index.js";
import { keysCommand } from "./keys.js";
import { migrateCommand } from "./migrate.js";
import { processCommand } from "./process.js";
import { queuesCommand } from "./queues.js";
import { schedulesCommand } from "./schedules.js";
import { dashboardCommand, serveCommand } from "./serve.js";
import { statsCommand } from "./stats.js";
import { tokensCommand } from "./tokens.js";
import { versionCommand } from "./version.js";
import { workerCommand } from "./worker.js";
import { workersCommand } from "./workers.js";

/** Every command, in the order of help. */
export const commands: readonly Command[] = [
  devCommand,
  workerCommand,
  serveCommand,
  dashboardCommand,
  processCommand,
  enqueueCommand,
  jobsCommand,
  emitCommand,
  errorsCommand,
  schedulesCommand,
  queuesCommand,
  keysCommand,
  workersCommand,
  statsCommand,
  tokensCommand,
  auditCommand,
  doctorCommand,
  migrateCommand,
  importCommand,
  configCommand,
  completionCommand,
  helpCommand,
  versionCommand,
];
