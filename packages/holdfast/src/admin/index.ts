/** The admin API: `holdfast/admin`. */
export { admin } from "./app.js";
export type { Admin, AdminOptions } from "./app.js";
export { adminClient, AdminError } from "./client.js";
export type { AdminClient, AdminClientOptions } from "./client.js";
export type {
  AuditAnswer,
  Calls,
  Enqueued,
  ErrorAnswer,
  JobConditions,
  JobDetail,
  JobQuery,
  JobSummary,
  ManyJobs,
  NewJobBody,
  OperationAnswer,
  QueueAnswer,
  ScheduleAnswer,
  ScheduleSummary,
  ScheduleBody,
  SessionAnswer,
  StatsAnswer,
  SummaryAnswer,
  TimingBody,
  TokenAnswer,
  WorkerAnswer,
} from "./calls.js";
export type { Identity } from "./identity.js";
export { lambdaHandler } from "./lambda.js";
export type { LambdaResult } from "./lambda.js";
export { nodeListener } from "./node-listener.js";
export { ROUTES } from "./routes.js";
export type { RouteLine, RouteName } from "./routes.js";
export { ROLES } from "../roles.js";
export type { Role } from "../roles.js";
