/**
 * What each command answers with `--json`, by its path. `jobs.list` is a call of the admin API: the answer is that call's, whose
 * schema is in the OpenAPI document. A test sees that every command is here.
 */
export const JSON_RESULTS: Readonly<Record<string, string>> = {
  dev: "a line each time it has started: `{ url, worker }`",
  worker: "one line when it runs: `{ worker, url }`; `url` is null without `--serve`",
  serve: "one line when it listens: `{ url }`",
  process: "`{ ran }`, the number of jobs",
  enqueue: "the answer of `jobs.enqueue`",
  "jobs list": "the answer of `jobs.list`",
  "jobs show": "the answer of `jobs.get`",
  "jobs retry":
    "one id: `{ id, status }`, where `status` is that of `jobs.retry`; else the answer of `operations.get` at its end",
  "jobs cancel":
    "one id: `{ id, status }`, where `status` is that of `jobs.cancel`; else the answer of `operations.get` at its end",
  "jobs delete":
    "one id: `{ id, status }`, where `status` is that of `jobs.remove`; else the answer of `operations.get` at its end",
  "jobs retry-dead": "the answer of `operations.get` at its end",
  "jobs purge": "the answer of `operations.get` at its end",
  "jobs purge-completed": "the answer of `operations.get` at its end",
  "jobs rerun": "the answer of `jobs.rerun`",
  "schedules list": "the answer of `schedules.list`",
  "schedules show": "the answer of `schedules.get`",
  "schedules create": "the answer of `schedules.create`",
  "schedules update": "the answer of `schedules.update`",
  "schedules enable": "the answer of `schedules.enable`",
  "schedules disable": "the answer of `schedules.disable`",
  "schedules reset": "the answer of `schedules.reset`",
  "schedules delete": "`{ name, status }`, where `status` is that of `schedules.remove`",
  "schedules preview": "the answer of `schedules.preview`",
  "schedules run": "the answer of `schedules.run`",
  "queues list":
    "the answer of `queues.list`, and in each queue `counts`: its jobs by state as in `jobs.stats`, or null if it has none or they are among those of `other` there",
  "queues pause": "the answer of `queues.pause`",
  "queues resume": "the answer of `queues.resume`",
  workers: "the answer of `workers.list`",
  stats: "the answer of `jobs.stats`; with `--watch` one on each line",
  "tokens create": "the answer of `tokens.create`",
  "tokens list": "the answer of `tokens.list`",
  "tokens revoke": "`{ id, status }`, where `status` is that of `tokens.revoke`",
  audit: "the answer of `audit.list`",
  doctor: "`{ findings: { check, level, found, advice }[] }`; `level` is ok, warning or problem, `advice` may be null",
  migrate:
    "`{ migrated, applied }`: whether anything was pending, and what; with `--check` `{ current, pending }`; with `--print` `{ text }`",
  import: "`{ imported, skipped, dropped, dryRun, … }`, as `importLegacy` answers",
  "config list": "`{ file, values: { key, value, source }[] }`; `source.kind` is default, file, variable or flag",
  "config get": "`{ key, value, source }`",
  "config set": "`{ key, value, file }`",
  "config unset": "`{ key, file, unset }`; `file` is null and `unset` false where it was not set",
  "config path": "`{ file }`",
  completion: "`{ shell, script }`",
  help: "`{ help }`",
  version: "`{ version }`",
};
