import { group, type Command } from "../../parse/command.js";
import { cancel, purge, purgeCompleted, remove, rerun, retry, retryDead } from "./changes.js";
import { explain } from "./explain.js";
import { follow } from "./follow.js";
import { count, list } from "./list.js";
import { show } from "./show.js";
import { promote, update } from "./update.js";

export const jobsCommand: Command = group({
  name: "jobs",
  summary: "List, show, explain, follow, change, retry, cancel and delete jobs.",
  commands: [
    list,
    show,
    explain,
    follow,
    count,
    update,
    promote,
    retry,
    cancel,
    remove,
    retryDead,
    purge,
    purgeCompleted,
    rerun,
  ],
});
