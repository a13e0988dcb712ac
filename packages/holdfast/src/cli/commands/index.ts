import type { Command } from "../parse/command.js";
import { auditCommand, tokensCommand } from "./access.js";
import { completionCommand } from "./completion.js";
import { configCommand } from "./config.js";
import { doctorCommand } from "./doctor.js";
import { enqueueCommand } from "./enqueue.js";
import { helpCommand } from "./help.js";
import { jobsCommand } from "./jobs.js";
import { processCommand } from "./process.js";
import { queuesCommand, workersCommand } from "./queues.js";
import { schedulesCommand } from "./schedules.js";
import { serveCommand } from "./serve.js";
import { statsCommand } from "./stats.js";
import { importCommand, migrateCommand } from "./store.js";
import { versionCommand } from "./version.js";
import { devCommand, workerCommand } from "./worker.js";

/** Every command, in the order of help. */
export const commands: readonly Command[] = [
  devCommand,
  workerCommand,
  serveCommand,
  processCommand,
  enqueueCommand,
  jobsCommand,
  schedulesCommand,
  queuesCommand,
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
