import type { Attributes } from "@opentelemetry/api";
import { describeError } from "../../job/error-record.js";
import { nameOf } from "../../job/thrown.js";

/**
 * Attribute names of OpenTelemetry's semantic conventions for messaging. Attributes that they do not define are under
 * `messaging.holdfast`, as the conventions require.
 */
export const ATTRIBUTES = {
  system: "messaging.system",
  operationName: "messaging.operation.name",
  operationType: "messaging.operation.type",
  destination: "messaging.destination.name",
  messageId: "messaging.message.id",
  messageBody: "messaging.holdfast.job.input",
  messageCount: "messaging.batch.message_count",
  clientId: "messaging.client.id",
  errorType: "error.type",
  jobType: "messaging.holdfast.job.type",
  attempt: "messaging.holdfast.job.attempt",
  maxAttempts: "messaging.holdfast.job.max_attempts",
  tags: "messaging.holdfast.job.tags",
  schedule: "messaging.holdfast.schedule.name",
  outcome: "messaging.holdfast.outcome",
  duplicate: "messaging.holdfast.duplicate",
  retryIn: "messaging.holdfast.retry_in",
  wait: "messaging.holdfast.wait",
  state: "messaging.holdfast.state",
} as const;

/** The common attributes of an operation's spans and metrics. The conventions call every kind of publishing "send". */
export function operation(name: "publish" | "process", { type, queue }: { type: string; queue: string }): Attributes {
  return {
    [ATTRIBUTES.system]: "holdfast",
    [ATTRIBUTES.operationName]: name,
    [ATTRIBUTES.operationType]: name === "publish" ? "send" : name,
    [ATTRIBUTES.destination]: queue,
    [ATTRIBUTES.jobType]: type,
  };
}

/** The class of an error. Unlike messages, there are few classes. */
export function errorType(error: unknown): string {
  return nameOf(error) ?? "_OTHER";
}

const LIMITS = { message: 4_000, stack: 16_000 };

/** Converts any thrown value to an exception for a span. */
export function exceptionOf(error: unknown): { name: string; message: string; stack?: string } {
  const { message, stack } = describeError(error, LIMITS);
  return stack === null ? { name: errorType(error), message } : { name: errorType(error), message, stack };
}
