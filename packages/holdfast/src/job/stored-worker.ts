export interface WorkerRecord {
  id: string;
  queues: readonly string[] | null;
  types: readonly string[];
  /** Schedules defined by the code of its process; null if there are too many to list. */
  schedules: readonly string[] | null;
  concurrency: number;
  running: number;
  host: string;
  pid: number;
  startedAt: number;
  /** The version of the package. Absent in records of earlier versions. */
  version?: string;
  /** The jobs that it ran at its last heartbeat, at most `LIMITS.workerJobs`. Absent in records of earlier versions. */
  jobs?: readonly { id: string; type: string }[];
}
/** A worker with the time of its last heartbeat. A stopped one has `left` set and is kept for an hour. */
export interface StoredWorker extends WorkerRecord {
  seenAt: number;
  left: boolean;
  /** It was asked to claim no more jobs. */
  draining: boolean;
}
/** What a worker learns from its heartbeat. */
export interface HeartbeatResult {
  draining: boolean;
}
