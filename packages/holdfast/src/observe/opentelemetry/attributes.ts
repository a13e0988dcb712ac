import type { Attributes } from "@opentelemetry/api";
import { describeError } from "../../job/error-record.js";
import { nameOf } from "../../job/thrown.js";

/**
 * Names by OpenTelemetry's semantic conventions for messaging. What they have no name for is under `messaging.holdfast`, as
 * they ask of every system.
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

/** What spans and metrics of an operation have in common. The conventions call every kind of publishing "send". */
export function operation(name: "publish" | "process", { type, queue }: { type: string; queue: string }): Attributes {
  return {
    [ATTRIBUTES.system]: "holdfast",
    [ATTRIBUTES.operationName]: name,
    [ATTRIBUTES.operationType]: name === "publish" ? "send" : name,
    [ATTRIBUTES.destination]: queue,
    [ATTRIBUTES.jobType]: type,
  };
}

/** The kind of an error, of which there are few: its class. */
export function errorType(error: unknown): string {
  return nameOf(error) ?? "_OTHER";
}

const LIMITS = { message: 4_000, stack: 16_000 };

/** An error as a span keeps it, whatever was thrown. */
export function exceptionOf(error: unknown): { name: string; message: string; stack?: string } {
  const { message, stack } = describeError(error, LIMITS);
  return stack === null ? { name: errorType(error), message } : { name: errorType(error), message, stack };
}
