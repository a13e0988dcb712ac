/** The admin API: `holdfast/admin`. */
export { admin } from "./http/app.js";
export type { Admin, AdminOptions } from "./http/app.js";
export { adminClient, AdminError } from "./contract/client.js";
export type { AdminClient, AdminClientOptions } from "./contract/client.js";
export type {
  AuditResult,
  Calls,
  CountResult,
  Enqueued,
  ErrorGroupResult,
  ErrorResult,
  ExplanationResult,
  StepResult,
  StepsResult,
  HistoryQuery,
  HistoryResult,
  JobChanges,
  JobConditions,
  JobDetail,
  JobListResult,
  JobQuery,
  JobSummary,
  ManyJobs,
  NewJobBody,
  OperationResult,
  OperationTarget,
  PreviewInput,
  PreviewResult,
  QueueResult,
  ReasonResult,
  ScheduleResult,
  ScheduleSummary,
  ScheduleBody,
  SessionResult,
  StatsResult,
  SummaryResult,
  TimingBody,
  TokenResult,
  TransitionQuery,
  TransitionResult,
  TypeResult,
  WorkerResult,
} from "./contract/api-types.js";
export type { Auth, ClientAddress } from "./auth/authenticator.js";
export type { Identity } from "./auth/identity.js";
export { lambdaHandler } from "./http/lambda.js";
export type { LambdaResult } from "./http/lambda.js";
export { nodeListener } from "./http/node-listener.js";
export { ROUTES } from "./contract/routes.js";
export type { RouteLine, RouteName } from "./contract/routes.js";
export { ROLES } from "../access/roles.js";
export type { Role } from "../access/roles.js";
