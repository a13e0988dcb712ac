import { HoldfastError, StoreUnavailableError, StoreUnreadableError } from "../../../errors.js";

const INVALID_CREDENTIALS: ReadonlySet<string> = new Set([
  "UnrecognizedClientException",
  "InvalidSignatureException",
  "IncompleteSignatureException",
  "MissingAuthenticationTokenException",
  "InvalidClientTokenId",
  "OptInRequired",
]);
const EXPIRED: ReadonlySet<string> = new Set(["ExpiredTokenException", "ExpiredToken", "RequestExpired"]);
const THROTTLED: ReadonlySet<string> = new Set([
  "ProvisionedThroughputExceededException",
  "ThrottlingException",
  "ThrottlingError",
  "Throttling",
  "ThrottledException",
  "TooManyRequestsException",
  "ProvisionedThroughputExceeded",
  "RequestLimitExceeded",
]);
const TRANSIENT: ReadonlySet<string> = new Set([
  "InternalServerError",
  "InternalServerErrorException",
  "ServiceUnavailable",
  "ServiceUnavailableException",
  "TransactionInProgressException",
  "TransactionConflictException",
  "TransactionConflict",
  "RequestTimeout",
  "RequestTimeoutException",
  "TimeoutError",
  "AbortError",
]);

// The request did not reach a server.
const UNREACHABLE: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
]);
const CONFLICTS: ReadonlySet<string> = new Set(["TransactionConflictException", "TransactionConflict"]);

// A request that was signed with a wrong time.
const WRONG_TIME: ReadonlySet<string> = new Set([
  "AuthFailure",
  "InvalidSignatureException",
  "RequestExpired",
  "RequestInTheFuture",
  "RequestTimeTooSkewed",
  "SignatureDoesNotMatch",
]);

interface SdkError extends Error {
  $metadata?: { httpStatusCode?: number; clockSkewCorrected?: boolean };
  $response?: unknown;
  code?: string;
}

/** The table or account is over its capacity. The request is sent again with growing delays. */
export function isThrottled(error: unknown): boolean {
  return THROTTLED.has((error as Error).name);
}

/** Sending the request again may help: it got no response, or it conflicted with another transaction. */
export function isTransient(error: unknown): boolean {
  const { name, $metadata } = error as SdkError;
  if (isThrottled(error) || TRANSIENT.has(name)) return true;
  // The local clock is wrong. The SDK has measured by how much and signs the next request with the corrected time. From then on
  // it may mark errors of every kind as corrected.
  if ($metadata?.clockSkewCorrected === true && WRONG_TIME.has(name)) return true;
  // A truncated response has a status too. Errors before the request is sent, such as missing credentials, have neither.
  return isConnection(error) || ($metadata?.httpStatusCode ?? 0) >= 500;
}

function isConnection(error: unknown): boolean {
  const { code } = error as SdkError;
  return typeof code === "string" && /^(?:E[A-Z]+|EAI_\w+|UND_ERR\w*)$/.test(code);
}

/** No connection could be made. */
export function isUnreachable(error: unknown): boolean {
  return UNREACHABLE.has((error as SdkError).code ?? "");
}

/** No response arrived, but DynamoDB may have done the write. */
export function mayHaveSucceeded(error: unknown): boolean {
  return isTransient(error) && !isThrottled(error) && !isUnreachable(error) && !CONFLICTS.has((error as Error).name);
}

/** DynamoDB will never accept this item: it is too large, or contains a value that cannot be stored. */
export function isInvalidItem(error: unknown): boolean {
  return (
    (error as Error).name === "ValidationException" ||
    (error as Error).name === "ItemCollectionSizeLimitExceededException"
  );
}

export function isMissingTable(error: unknown): boolean {
  return (error as Error).name === "ResourceNotFoundException";
}

/** Converts an error of the SDK or of DynamoDB into one of Holdfast's. `where` names the table and its region. */
export function storeError(error: unknown, where: string): Error {
  if (error instanceof HoldfastError) return error;
  // `$response` holds the whole HTTP exchange including the socket. Non-enumerable, it does not fill the log.
  if (error instanceof Error && "$response" in error) Object.defineProperty(error, "$response", { enumerable: false });
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  if (isMissingTable(error)) {
    return new StoreUnreadableError(
      `${where} does not exist; check its name and region. holdfast() and store.migrate() create it`,
      error,
    );
  }
  if (name === "AccessDeniedException") {
    return new StoreUnreadableError(
      `permission denied for ${where}: ${message}. Attach the policy that dynamodb(…).iamPolicy() prints to these AWS credentials`,
      error,
    );
  }
  if (EXPIRED.has(name)) {
    return new StoreUnreadableError(
      `the AWS credentials for ${where} have expired: ${sentence(message)} Renew them`,
      error,
    );
  }
  if (INVALID_CREDENTIALS.has(name)) {
    return new StoreUnreadableError(
      `AWS rejected the credentials for ${where}: ${sentence(message)} Check the access key, its secret and the region`,
      error,
    );
  }
  if (name === "CredentialsProviderError") {
    return new StoreUnreadableError(
      `no AWS credentials were found for ${where}: ${message}. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role`,
      error,
    );
  }
  if (message.startsWith("Region is missing")) {
    return new StoreUnreadableError(
      `no AWS region is set for ${where}; set the option region, in the URL or in the options, or AWS_REGION`,
      error,
    );
  }
  if (isThrottled(error)) {
    return new StoreUnavailableError(`${where} throttles requests: ${message}`, error);
  }
  if (isUnreachable(error)) {
    return new StoreUnavailableError(`${where} cannot be reached: ${message}. Check its region and endpoint`, error);
  }
  if (isTransient(error))
    return new StoreUnavailableError(`${where} did not respond: ${message === "" ? name : message}`, error);
  // An invalid request stays invalid. Every other error (credentials that could not be refreshed, a KMS key that is
  // unavailable) may be temporary, and no job may end because of it.
  if (isInvalidItem(error)) {
    return new HoldfastError("STORE_ERROR", `${where} rejected a request: ${message}`, { cause: error });
  }
  return new StoreUnavailableError(`a request to ${where} failed: ${message === "" ? name : message}`, error);
}

function sentence(message: string): string {
  return /[.!?]$/.test(message) ? message : `${message}.`;
}
