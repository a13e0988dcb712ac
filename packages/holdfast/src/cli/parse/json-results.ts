/**
 * The `--json` result of each command, by its path. `jobs.list` is a call of the admin API, whose schema is in the OpenAPI
 * document. A test checks that every command is listed.
 */
export const JSON_RESULTS: Readonly<Record<string, string>> = {
  dev: "one line at each start: `{ url, dashboard, worker }`",
  worker: "one line when it has started: `{ worker, url }`; `url` is null without `--serve`",
  serve: "one line when it listens: `{ url, dashboard }`",
  dashboard: "one line when it listens: `{ url, dashboard }`",
  process: "`{ ran }`, the number of jobs",
  enqueue: "the result of `jobs.enqueue`",
  "jobs list": "the result of `jobs.list`",
  "jobs count": "the result of `jobs.count`",
  "jobs update":
    "one id: `{ id, status }`, with the `status` of `jobs.update`; else the final result of `operations.get`",
  "jobs promote":
    "one id: `{ id, status }`, with the `status` of `jobs.promote`; else the final result of `operations.get`",
  "jobs show": "the result of `jobs.get`, and `steps`: those of `jobs.steps`, or null if the caller may not see them",
  "jobs explain": "the result of `jobs.explain`",
  "jobs follow": "`{ id, type, queue, to, at, cursor }`, one per line",
  "jobs retry":
    "one id: `{ id, status }`, with the `status` of `jobs.retry`; else the final result of `operations.get`",
  "jobs cancel":
    "one id: `{ id, status }`, with the `status` of `jobs.cancel`; else the final result of `operations.get`",
  "jobs delete":
    "one id: `{ id, status }`, with the `status` of `jobs.remove`; else the final result of `operations.get`",
  "jobs retry-dead": "the final result of `operations.get`",
  "jobs purge": "the final result of `operations.get`",
  "jobs purge-completed": "the final result of `operations.get`",
  "jobs rerun": "the result of `jobs.rerun`",
  emit: "the result of `events.emit`",
  errors: "the result of `errors.list`",
  "schedules list": "the result of `schedules.list`",
  "schedules show": "the result of `schedules.get`",
  "schedules create": "the result of `schedules.create`",
  "schedules update": "the result of `schedules.update`",
  "schedules enable": "the result of `schedules.enable`",
  "schedules disable": "the result of `schedules.disable`",
  "schedules reset": "the result of `schedules.reset`",
  "schedules delete": "`{ name, status }`, with the `status` of `schedules.remove`",
  "schedules preview": "the result of `schedules.preview`",
  "schedules run": "the result of `schedules.run`",
  "queues list":
    "the result of `queues.list`, and in each queue `counts`: its jobs by state as in `jobs.stats`, or null if it has none, or if they are part of `other` there",
  "queues pause": "the result of `queues.pause`; with `--all` of `queues.pauseAll`",
  "queues resume": "the result of `queues.resume`; with `--all` of `queues.resumeAll`",
  "keys free": "`{ key, status }`, with the `status` of `keys.free`",
  workers: "the result of `workers.list`",
  stats: "the result of `jobs.stats`; with `--watch` one per line",
  "tokens create": "the result of `tokens.create`",
  "tokens list": "the result of `tokens.list`",
  "tokens revoke": "`{ id, status }`, with the `status` of `tokens.revoke`",
  audit: "the result of `audit.list`",
  doctor:
    "`{ store, findings: { check, level, found, advice }[] }`; `level` is ok, warning or problem, `advice` may be null",
  migrate:
    "`{ migrated, applied }`: whether anything was pending, and what; with `--check` `{ current, pending }`; with `--print` `{ text }`",
  import: "`{ imported, skipped, dropped, dryRun, … }`, as `importLegacy` returns",
  "config list": "`{ file, values: { key, value, source }[] }`; `source.kind` is default, file, variable or flag",
  "config get": "`{ key, value, source }`",
  "config set": "`{ key, value, file }`",
  "config unset": "`{ key, file, unset }`; if the key was not set, `file` is null and `unset` is false",
  "config path": "`{ file }`",
  completion: "`{ shell, script }`",
  help: "`{ help }`",
  version: "`{ version }`",
};
